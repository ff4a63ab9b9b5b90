import numpy as np
from sklearn.tree import DecisionTreeRegressor
from relax_plugin.world_model.model import WorldModel
class TreeWorld(WorldModel):
    rounds,leaves,rate,min_leaf,subsample,max_features=100,8,.15,3,.7,.5
    def fit(self,values,answer,epochs=0):
        t=self.targets(answer)
        self.single=t.shape[1]==2 and self.blackbox.reader.score_kind=="probability"
        y=t[:,:1] if self.single else t
        X,self.parent,self.part=self._columns(values)
        X=np.ascontiguousarray(X,dtype=np.float32)
        rng=np.random.default_rng(int(self.generator.initial_seed()))
        self.base=y.mean(0); r=y-self.base; n=len(X); trees=[]
        mf=min(1.0,max(self.max_features,8/X.shape[1]))
        for k in range(self.rounds):
            i=rng.permutation(n)[:int(self.subsample*n)]
            m=DecisionTreeRegressor(max_leaf_nodes=self.leaves,min_samples_leaf=self.min_leaf,max_features=mf,random_state=int(rng.integers(2**31))).fit(X[i],r[i],check_input=False).tree_
            r=r-self.rate*m.predict(X).reshape(r.shape); trees.append(m)
        self._tabulate(trees)
        return self
    def _columns(self,values):
        cols=[];par=[];part=[]
        for j,f in enumerate(self.space.features):
            if f.kind=="categorical":
                for c in range(len(f.categories)): cols.append(values[:,j]==c); par.append(j); part.append(c)
            else: cols.append(values[:,j]); par.append(j); part.append(-1)
        return np.column_stack(cols),np.array(par),np.array(part)
    def _tabulate(self,trees):
        T=len(trees); d=len(self.space.features)
        C=len(self.base)
        self.lut=np.zeros((T,256,C),dtype=np.float32)
        nodes=[[] for _ in range(d)]  # (threshold or category, tree, left mask, right mask)
        for k,t in enumerate(trees):
            L,R,F,TH=t.children_left,t.children_right,t.feature,t.threshold
            leaf={}
            below={}
            def walk(n):
                if L[n]<0:
                    b=1<<len(leaf); leaf[n]=b; below[n]=b
                    self.lut[k,b]=self.rate*t.value[n].reshape(-1)
                else:
                    walk(L[n]); walk(R[n]); below[n]=below[L[n]]|below[R[n]]
            walk(0)
            for n in range(t.node_count):
                if L[n]>=0:
                    c=F[n]; nodes[self.parent[c]].append((TH[n],self.part[c],k,below[L[n]],below[R[n]]))
        self.thr=[]; self.table=[]
        for j in range(d):
            if self.space.is_categorical[j]:
                tab=np.full((len(self.space.features[j].categories),T),255,np.uint8)
                for th,c,k,l,r in nodes[j]:
                    right=np.arange(len(tab))==c
                    tab[:,k]&=np.where(right,255-l,255-r).astype(np.uint8)
                self.thr.append(None)
            else:
                thr=np.unique([x[0] for x in nodes[j]]) if nodes[j] else np.zeros(0)
                tab=np.full((len(thr)+1,T),255,np.uint8)
                for th,c,k,l,r in nodes[j]:
                    right=np.arange(len(tab))>np.searchsorted(thr,th)   # v>th
                    tab[:,k]&=np.where(right,255-l,255-r).astype(np.uint8)
                self.thr.append(thr)
            self.table.append(tab)
        self.offs=(np.arange(T)*256).astype(np.int32)
        self.flat=self.lut.reshape(T*256,C)
    def _bin(self,j,v):
        if self.thr[j] is None: return v.astype(int)
        return np.searchsorted(self.thr[j],v.astype(np.float32).astype(float),side="left")
    def _sum(self,mask):
        out=np.empty((len(mask),self.flat.shape[1]))
        for i in range(0,len(mask),4096):
            m=mask[i:i+4096]+self.offs
            if self.flat.shape[1]==1: out[i:i+4096,0]=np.take(self.flat[:,0],m).sum(1)
            else: out[i:i+4096]=self.flat[m].sum(1)
        out+=self.base
        return np.column_stack([out,-out]) if self.single else out
    def predict(self,values):
        m=np.full((len(values),len(self.offs)),255,np.uint8)
        for j in range(values.shape[1]): m&=self.table[j][self._bin(j,values[:,j])]
        return self._sum(m)
    def predict_moves(self,values,row,feature,value):
        S,d=values.shape; T=len(self.offs)
        out=np.empty((len(row),2 if self.single else len(self.base)))
        order=np.argsort(row,kind="stable"); chunk=max(1,20_000_000//(d*T))
        for first in range(0,S,chunk):
            v=values[first:first+chunk]; sel=order[np.searchsorted(row[order],first):np.searchsorted(row[order],first+chunk)]
            own=[self.table[j][self._bin(j,v[:,j])] for j in range(d)]
            loo=np.empty((d,len(v),T),np.uint8); acc=np.full((len(v),T),255,np.uint8)
            for j in range(d): loo[j]=acc; acc=acc&own[j]
            acc=np.full((len(v),T),255,np.uint8)
            for j in range(d-1,-1,-1): loo[j]&=acc; acc=acc&own[j]
            for j in np.unique(feature[sel]):
                s=sel[feature[sel]==j]
                out[s]=self._sum(loo[j][row[s]-first]&self.table[j][self._bin(j,value[s])])
        return out
