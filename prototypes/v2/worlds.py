"""Two quick world models with the same face: a network of one hidden layer, and boosted small trees as tables of bits."""
import numpy as np, torch
from torch import nn
from sklearn.tree import DecisionTreeRegressor
from relax_plugin.world_model.layers import Adam, one_thread

BINS=8
class Targets:
    """What is imitated: one number where that says all (two classes, a regressor), else one a class."""
    def __init__(self, blackbox):
        self.blackbox=blackbox
        self.regression=blackbox.task=="regression"
        self.outputs=1 if self.regression else len(np.asarray(blackbox.classes))
        self.single=self.outputs<=2
    def of(self,answer):
        if self.regression: return answer.output[:,None]
        if answer.scores is None:
            t=3.0*(answer.output[:,None]==np.arange(self.outputs))
        elif self.blackbox.reader.score_kind!="probability": t=answer.scores
        else: t=self.blackbox.logits(answer.scores)
        if self.outputs==2: return (t[:,1]-t[:,0])[:,None]
        return t-t.mean(1,keepdims=True)
    def gap(self,goal,t):
        """t: (n, ..., C), goal for n rows."""
        if self.regression:
            t=t[...,0]; e=(slice(None),)+(None,)*(t.ndim-1)
            lo,up=goal.lower[e],goal.upper[e]
            return np.maximum(lo-t,t-up) if goal.inside else np.minimum(t-lo,up-t)
        if self.outputs==2:
            t=t[...,0]; e=(slice(None),)+(None,)*(t.ndim-1)
            w=goal.wanted
            sign=np.where(w[:,1]&~w[:,0],-1.0,np.where(w[:,0]&~w[:,1],1.0,0.0)).astype(t.dtype)
            g=t*sign[e]
            if goal.min_probability is not None:
                g=np.maximum(g, np.log(max(goal.min_probability,1e-12))+np.logaddexp(0,g))
            return g
        e=(slice(None),)+(None,)*(t.ndim-2)+(slice(None),)
        w=goal.wanted[e]
        g=np.where(w,-np.inf,t).max(-1)-np.where(w,t,-np.inf).max(-1)
        if goal.min_probability is not None:
            z=t-t.max(-1,keepdims=True); logp=z-np.log(np.exp(z).sum(-1,keepdims=True))
            g=np.maximum(g,np.log(max(goal.min_probability,1e-12))-np.where(w,logp,-np.inf).max(-1))
        return g

class NetworkWorld:
    H=128
    def __init__(self,space,values,seed=0,steps=300,lr=5e-3,wd=0.1,batch=128):
        self.space=space; self.seed=seed; self.steps,self.lr,self.wd,self.batch=steps,lr,wd,batch
        self.edges=np.quantile(values,np.linspace(0,1,BINS+1),axis=0).T.copy()
        w=np.diff(self.edges,axis=1); self.width=np.where(w>0,w,np.inf)
        cols=[len(f.categories) if f.kind=="categorical" else 1+BINS for f in space.features]
        ends=np.cumsum([0,*cols]); self.columns=[slice(int(a),int(b)) for a,b in zip(ends[:-1],ends[1:])]
        self.inputs=int(ends[-1])
    def _seen(self,j,column):
        if self.space.is_categorical[j]:
            return (column[:,None]==np.arange(len(self.space.features[j].categories))).astype(np.float32)
        pieces=np.clip((column[:,None]-self.edges[j,:-1])/self.width[j],0,1)-.5
        return np.column_stack([(column-self.space.mean[j])/self.space.scale[j],pieces]).astype(np.float32)
    def _inputs(self,values):
        out=np.empty((len(values),self.inputs),np.float32)
        for j,c in enumerate(self.columns): out[:,c]=self._seen(j,values[:,j])
        return out
    @one_thread()
    def fit(self,values,targets,sure=None):
        g=torch.Generator().manual_seed(self.seed)
        self.centre=targets.mean(0); self.scale=float((targets-self.centre).std()) or 1.0
        x=torch.from_numpy(self._inputs(values)); y=torch.tensor((targets-self.centre)/self.scale,dtype=torch.float32)
        I,H,C=self.inputs,self.H,targets.shape[1]
        u=lambda *s,b:(torch.rand(*s,generator=g)*2-1)*b
        W1=u(I,H,b=I**-.5*1.0); b1=u(H,b=I**-.5); W2=u(H,C,b=H**-.5); b2=torch.zeros(C)
        P=[p.requires_grad_() for p in (W1,b1,W2,b2)]
        opt=Adam(P,self.lr,self.wd)
        n=len(x); batch=min(self.batch,n)
        for s in range(self.steps):
            i=torch.randint(0,n,(batch,),generator=g)
            out=torch.relu(x[i]@W1+b1)@W2+b2
            opt.descend(nn.functional.smooth_l1_loss(out,y[i],beta=.3))
            opt.rate=self.lr*(1-.95*s/self.steps)
        self.W1,self.b1,self.W2,self.b2=(p.detach().numpy() for p in P)
        return self
    def predict(self,values):
        out=np.empty((len(values),self.W2.shape[1]))
        for i in range(0,len(values),8192):
            out[i:i+8192]=np.maximum(self._inputs(values[i:i+8192])@self.W1+self.b1,0)@self.W2+self.b2
        return out*self.scale+self.centre
    def table(self,feature,value):
        t=np.empty((len(feature),self.H),np.float32)
        for j in np.unique(feature):
            m=feature==j; t[m]=self._seen(j,value[m])@self.W1[self.columns[j]]
        return t
    def moves(self,states,feature,table,chosen=None):
        """(S, M or K, C)."""
        S,d=states.shape; K=len(feature) if chosen is None else chosen.shape[1]
        out=np.empty((S,K,self.W2.shape[1]),np.float32)
        size=max(1,min(400_000//(K*self.H)+1, 20_000_000//(d*self.H)+1))
        big=max(size,4_000_000//(d*self.H)+1)
        for a in range(0,S,big):
            v=states[a:a+big]; own=np.empty((len(v),d,self.H),np.float32)
            for j in range(d): own[:,j]=self._seen(j,v[:,j])@self.W1[self.columns[j]]
            h=own.sum(1)+self.b1
            for i in range(0,len(v),size):
                o=own[i:i+size]; hh=h[i:i+size]
                if chosen is None:
                    x=(hh[:,None]-o)[:,feature]; x+=table
                else:
                    c=chosen[a+i:a+i+len(o)]
                    x=np.take_along_axis(hh[:,None]-o,feature[c][:,:,None],1); x+=table[c]
                np.maximum(x,0,out=x)
                out[a+i:a+i+len(x)]=x@self.W2
        return (out+self.b2)*np.float32(self.scale)+self.centre.astype(np.float32)

class TreeWorld:
    rounds,leaves,rate,min_leaf,subsample,max_features=100,8,.15,3,.7,.5
    def __init__(self,space,values,seed=0): self.space=space; self.seed=seed
    def _columns(self,values):
        cols=[];par=[];part=[]
        for j,f in enumerate(self.space.features):
            if f.kind=="categorical":
                for c in range(len(f.categories)): cols.append(values[:,j]==c); par.append(j); part.append(c)
            else: cols.append(values[:,j]); par.append(j); part.append(-1)
        return np.column_stack(cols),np.array(par),np.array(part)
    def fit(self,values,targets):
        y=targets; X,self.parent,self.part=self._columns(values)
        X=np.ascontiguousarray(X,dtype=np.float32); rng=np.random.default_rng(self.seed)
        self.base=y.mean(0); r=y-self.base; n=len(X); trees=[]
        share=min(1.0,max(min(self.max_features,16/X.shape[1]),4/X.shape[1]))
        for k in range(self.rounds):
            i=rng.permutation(n)[:max(int(self.subsample*n),2)]
            t=DecisionTreeRegressor(max_leaf_nodes=self.leaves,min_samples_leaf=self.min_leaf,max_features=share,random_state=int(rng.integers(2**31))).fit(X[i],r[i],check_input=False).tree_
            r=r-self.rate*t.predict(X).reshape(r.shape); trees.append(t)
        self._tabulate(trees); return self
    def _tabulate(self,trees):
        T=len(trees); d=len(self.space.features); C=len(self.base)
        lut=np.zeros((T,256,C),dtype=np.float32); nodes=[[] for _ in range(d)]
        for k,t in enumerate(trees):
            L,R,F,TH,V=t.children_left,t.children_right,t.feature,t.threshold,t.value
            below=np.zeros(t.node_count,int); leaf=0
            for n in range(t.node_count-1,-1,-1): pass
            order=[0]; 
            for n in order:
                if L[n]>=0: order+= [L[n],R[n]]
            for n in reversed(order):
                if L[n]<0:
                    below[n]=1<<leaf; lut[k,1<<leaf]=self.rate*V[n].reshape(-1); leaf+=1
                else: below[n]=below[L[n]]|below[R[n]]
            for n in order:
                if L[n]>=0: nodes[self.parent[F[n]]].append((TH[n],self.part[F[n]],k,below[L[n]],below[R[n]]))
        self.thr=[]; self.masks=[]
        for j in range(d):
            N=nodes[j]
            if self.space.is_categorical[j]:
                thr=None; m=len(self.space.features[j].categories)
                right=np.array([np.arange(m)==x[1] for x in N]).reshape(-1,m).T
            else:
                thr=np.unique([x[0] for x in N]) if N else np.zeros(0); m=len(thr)+1
                right=np.arange(m)[:,None]>np.searchsorted(thr,[x[0] for x in N])[None] if N else np.zeros((m,0),bool)
            tab=np.full((m,T),255,np.uint8)
            if N:
                k=np.array([x[2] for x in N]); l=np.array([x[3] for x in N]); r=np.array([x[4] for x in N])
                mask=np.where(right,255-l,255-r).astype(np.uint8)
                np.bitwise_and.at(tab,(slice(None),k),mask)
            self.thr.append(thr); self.masks.append(tab)
        self.flat=lut.reshape(T*256,C); self.offs=(np.arange(T)*256).astype(np.int32)
    def _bin(self,j,v):
        if self.thr[j] is None: return v.astype(int)
        return np.searchsorted(self.thr[j],v.astype(np.float32).astype(float),side="left")
    def _sum(self,mask):
        idx=mask+self.offs
        if self.flat.shape[1]==1: return np.take(self.flat[:,0],idx).sum(-1)[...,None]
        return self.flat[idx].sum(-2)
    def predict(self,values):
        out=np.empty((len(values),len(self.base)))
        for i in range(0,len(values),2048):
            v=values[i:i+2048]; m=np.full((len(v),len(self.offs)),255,np.uint8)
            for j in range(v.shape[1]): m&=self.masks[j][self._bin(j,v[:,j])]
            out[i:i+2048]=self._sum(m)
        return out+self.base
    def table(self,feature,value):
        t=np.empty((len(feature),len(self.offs)),np.uint8)
        for j in np.unique(feature):
            m=feature==j; t[m]=self.masks[j][self._bin(j,value[m])]
        return t
    def moves(self,states,feature,table,chosen=None):
        S,d=states.shape; T=len(self.offs); K=len(feature) if chosen is None else chosen.shape[1]
        out=np.empty((S,K,len(self.base)),np.float32)
        size=max(1,400_000//(K*T)+1); big=max(size,8_000_000//(d*T)+1)
        for a in range(0,S,big):
            v=states[a:a+big]; loo=np.empty((len(v),d,T),np.uint8)
            own=[self.masks[j][self._bin(j,v[:,j])] for j in range(d)]
            acc=np.full((len(v),T),255,np.uint8)
            for j in range(d): loo[:,j]=acc; acc=acc&own[j]
            acc=np.full((len(v),T),255,np.uint8)
            for j in range(d-1,-1,-1): loo[:,j]&=acc; acc=acc&own[j]
            for i in range(0,len(v),size):
                l=loo[i:i+size]
                if chosen is None: m=l[:,feature]&table
                else:
                    c=chosen[a+i:a+i+len(l)]; m=np.take_along_axis(l,feature[c][:,:,None],1)&table[c]
                out[a+i:a+i+len(m)]=self._sum(m)
        return out+self.base.astype(np.float32)
