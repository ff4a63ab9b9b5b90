"""Prototype: imagined search."""
import numpy as np, time
from scipy.special import ndtr
from relax_plugin.base import CounterfactualExplainer, Supports
from relax_plugin.blackbox import Answer
from relax_plugin.problem import Problem, Proposals
from relax_plugin.search.greedy import Moves, greedy_search
from relax_plugin.search.refine import refine
from relax_plugin.world_model.model import WorldModel, EPOCHS, SEARCH_EPOCHS
from relax_plugin.world_model.sampling import Mixing, mixtures, moved, QUANTILES

class Imagined(CounterfactualExplainer):
    supports = Supports(labels_only=False)
    def __init__(self, model, space=None, *, goal=None, max_changes=5, seed=0, rows=12, fit_rows=1000, active=0.5, beam=4, grid=10, ell=2.0, near=4, stop=0.01, pool=24, epochs=20, fallback=True):
        super().__init__(model, space, goal=goal, max_changes=max_changes, seed=seed)
        self.rows=rows; self.fit_rows=fit_rows; self.active=active; self.beam=beam; self.grid=grid; self.ell=ell; self.near=near; self.stop=stop; self.pool=pool; self.epochs=epochs; self.fallback=fallback

    def _most_fit_rows(self): return self.fit_rows

    def _fit(self, values, rng):
        bb=self.blackbox_; space=self.space_
        self.training_=values
        self.moves_=Moves.quantiles(values, space, self.grid)
        self.fallmoves_=Moves.quantiles(values, space, 20)
        seen,answer=self.known_
        left=(self.fit_rows-self.fit_rows_)//bb.rows_per_question
        passive=int(left*(1-self.active))
        edges=WorldModel.pieces(values); seed=int(rng.integers(2**31))
        m5=Moves.quantiles(values,space,QUANTILES)
        fresh=moved(mixtures(values,space,Mixing(),rng,passive),space,m5,rng)
        seen=np.concatenate([seen,fresh]); answer=Answer.joined(answer,bb.ask(fresh)); left-=passive
        self.world_=WorldModel(bb,edges,seed).fit(seen,answer,self.epochs)
        self._residual(seen,answer)
        self.visited_=None
        if left>0:
            # queries: training rows, known answers not needed: ask world
            idx=rng.integers(0,len(values),left)
            start=values[idx]
            before=self.world_.answer(self.world_.predict(start))
            goal=self._dev_goal(before)
            limits=space.limits()
            problem=Problem(space,bb,start,before,goal,limits,self._most(),np.zeros(len(start),dtype=np.int64))
            vals,owner,gap=self._pool(problem)
            # one proposal a query: random among the pool's best
            pick=self._pick_training(problem,vals,owner,gap,rng)
            more=vals[pick]
            ans=bb.ask(more)
            pred=self.world_.predict(more)
            self.visited_=(self.world_.targets(ans),pred)
            res=(self.world_.targets(ans)-pred)
            seen=np.concatenate([seen,more]); answer=Answer.joined(answer,ans)
            self.world_=WorldModel(bb,edges,seed).fit(seen,answer,self.epochs)
            self.sigma_=max(float(np.sqrt((res**2).mean()))*1.0,1e-6)
            self.sigma_visited_=self.sigma_
        self.n_seen_=len(seen)

    def _most(self): return min(int(self.max_changes or len(self.space_)),len(self.space_))
    def _dev_goal(self,before):
        return self.goal_.bind(self.blackbox_,before)
    def _residual(self,seen,answer):
        a=self.world_.agreement
        t=self.world_.targets(answer)
        self.sigma_=max(float(np.sqrt(max(1-a.explained,0.001))*t.std()),1e-6)

    def _pick_training(self,problem,vals,owner,gap,rng):
        # a random one of the 3 most valuable of each owner
        ei=self._ei(problem,vals,owner,gap,np.full(len(gap),self.sigma_),np.full(len(problem),np.inf),np.full(len(problem),np.inf))
        noise=rng.gumbel(size=len(ei))
        order=np.lexsort((-(np.log(ei+1e-12)+0.5*noise),owner))
        first=order[np.unique(owner[order],return_index=True)[1]]
        return first

    def gap_of(self,problem,values,owner):
        ans=self.world_.answer(self.world_.predict(values))
        return problem.goal.take(owner).gap(ans)

    def _ei(self,problem,vals,owner,gap,sigma,bestL0,bestL1):
        L0=(vals!=problem.start[owner]).sum(1); L1=problem.distance(vals,owner)
        p=ndtr(-gap/sigma)
        most=problem.max_changes
        b0=np.where(np.isfinite(bestL0),bestL0,most+1)[owner]; b1=np.where(np.isfinite(bestL1),bestL1,0)[owner]
        nosol=~np.isfinite(bestL0)[owner]
        # utility: fewer changes count 1 each, L1 share of best
        scale=np.where(nosol,np.maximum(L1,1e-9),np.maximum(b1,1e-9))
        dl0=b0-L0
        better=np.where(nosol, dl0 + 1.0/(1.0+L1), np.where(dl0>0, dl0+0*L1, np.where(dl0==0,0.5*np.maximum(b1-L1,0)/scale,0)))
        return np.where(L0>0,p*better,0)

    def _candidate_moves(self,problem):
        """(B,M) values for moves with features (M,)"""
        B=len(problem)
        low,high=problem.span
        f=self.moves_.feature; v=np.clip(self.moves_.value,low[:,f],high[:,f])
        feats=[f]; vals=[v]
        num=np.flatnonzero(~self.space_.is_categorical)
        # shares of the way to each bound
        for end in (low,high):
            for s in (0.25,0.5):
                feats.append(num); vals.append(problem.start[:,num]+s*(end-problem.start)[:,num])
        if self.near:
            near=self._near_rows(problem)  # (B,near,d)
            for k in range(near.shape[1]):
                feats.append(np.arange(near.shape[2])); vals.append(np.clip(near[:,k],low,high))
        f=np.concatenate(feats); v=np.concatenate(vals,axis=1)
        return f,v

    def _near_rows(self,problem):
        t=self.training_[:1000]
        if not hasattr(self,"_tg"):
            self._tg=self.world_.answer(self.world_.predict(t))
        T=self.space_.standardise(t); S=self.space_.standardise(problem.start)
        d=(T**2).sum(1)[None]-2*S@T.T
        # which meet the goal of each query, in imagination
        B=len(problem); n=len(t)
        gi=problem.goal.take(np.repeat(np.arange(B),n)); met=gi.met(self._tg.take(np.tile(np.arange(n),B))).reshape(B,n)
        d=np.where(met,d,np.inf)
        k=min(self.near,n)
        order=np.argpartition(d,k-1,axis=1)[:,:k]
        return t[order]

    def _pool(self,problem):
        """Proposals in imagination: values, owner, gap."""
        B,d=problem.start.shape
        f,v=self._candidate_moves(problem)
        M=len(f)
        known=problem.gap
        out_v,out_o,out_g=[],[],[]
        here=self.world_.predict(problem.start)
        gap_here=problem.goal.gap(self.world_.answer(here))
        states=problem.start.copy(); owner=np.arange(B)
        for depth in range(problem.max_changes):
            # expand
            unch=(states==problem.start[owner])[:,f]
            ok=unch&(v[owner]!=problem.start[owner][:,f])&~np.broadcast_to(problem.limits.frozen,problem.start.shape)[owner][:,f]
            r,m=np.nonzero(ok)
            if len(r)==0: break
            # round cells
            cand_val=problem.limits.round_cells(v[owner[r],m],f[m])
            low,high=problem.span
            cand_val=np.clip(cand_val,low[owner[r],f[m]],high[owner[r],f[m]])
            keep=cand_val!=problem.start[owner[r],f[m]]
            r,m,cand_val=r[keep],m[keep],cand_val[keep]
            targets=self.world_.predict_moves(states,r,f[m],cand_val)
            own=owner[r]
            gap=problem.goal.take(own).gap(self.world_.answer(targets))
            # select per owner: proposals (by EI w/o incumbent) and beam (by gap)
            L1=problem.distance(states,owner)[r]+np.where(self.space_.is_categorical[f[m]],1.0,np.abs(cand_val-problem.start[own,f[m]])/self.space_.scale[f[m]])
            p=ndtr(-gap/self.sigma_)
            util=p*(problem.max_changes-depth+1/(1+L1))
            prop=top(own,-util,self.pool)
            vals=states[r[prop]].copy(); vals[np.arange(len(prop)),f[m[prop]]]=cand_val[prop]
            out_v.append(vals); out_o.append(own[prop]); out_g.append(gap[prop])
            if depth==problem.max_changes-1: break
            # beam: smallest gap, distinct features preferred: best per (state, feature) first
            best=top(r*d+f[m],gap,1)
            b=best[top(own[best],gap[best],self.beam*2)]
            vals=states[r[b]].copy(); vals[np.arange(len(b)),f[m[b]]]=cand_val[b]
            key=(vals@np.random.default_rng(0).standard_normal(d))
            _,uni=np.unique(np.stack([own[b],key],1),axis=0,return_index=True)
            b=b[uni]; vals=vals[uni]
            sel=top(own[b],gap[b],self.beam)
            states,owner=vals[sel],own[b][sel]
            # stop queries whose p is nearly 1 at this depth for many
            pm=np.zeros(B); np.maximum.at(pm,own,p)
            go=pm[owner]<0.98
            # one depth more is enough
            states,owner=states[go],owner[go]
            if len(states)==0: break
        return np.concatenate(out_v),np.concatenate(out_o),np.concatenate(out_g)

    def _generate(self,problem,n,rng):
        made=Proposals.empty(problem,n)
        self._t={}
        for index,part in problem.parts(512):
            v,met,stage=self._solve(part,rng)
            made.values[index,0]=v; made.offered[index,0]=met; made.stage[index,0]=stage
        return made

    def _solve(self,problem,rng):
        B,d=problem.start.shape
        per=problem.blackbox.rows_per_question
        vals,owner,gap=self._pool(problem)
        # GP data
        R=self.rows
        X=np.zeros((B,R+2,d)); res=np.zeros((B,R+2)); cnt=np.ones(B,dtype=int)
        std=self.space_.standardise
        def enc(v):  # standardised, categories handled by mismatch
            return v/self.space_.scale
        X[:,0]=enc(problem.start)
        g0=self.gap_of(problem,problem.start,np.arange(B))
        res[:,0]=problem.gap-g0
        best=problem.start.copy(); bL0=np.full(B,np.inf); bL1=np.full(B,np.inf)
        closest=problem.gap.copy(); attempt=problem.start.copy()
        asked_pool=np.zeros(len(owner),bool)
        active=np.ones(B,bool)
        dyn_v=np.zeros((0,d)); dyn_o=np.zeros(0,int); dyn_g=np.zeros(0)
        for rnd in range(R):
            av=np.concatenate([vals,dyn_v]); ao=np.concatenate([owner,dyn_o]); ag=np.concatenate([gap,dyn_g])
            mu,sd=self._gp(X,res,cnt,enc(av),ao)
            cg=ag+mu
            ei=self._ei(problem,av,ao,cg,sd,bL0,bL1)
            ei[:len(asked_pool)][asked_pool]=0
            ei[~active[ao]]=0
            pick=top(ao,-ei,1)
            pick=pick[ei[pick]>self.stop]
            if len(pick)==0: break
            ask_o=ao[pick]
            active[:]=False; active[ask_o]=True
            rows=problem.limits.take(ask_o).project(av[pick],problem.start[ask_o])
            met,g=problem.judge(rows,ask_o)
            asked_pool[pick[pick<len(asked_pool)]]=True
            gW=self.gap_of(problem,rows,ask_o)
            X[ask_o,cnt[ask_o]]=enc(rows); res[ask_o,cnt[ask_o]]=g-gW; cnt[ask_o]+=1
            L0=(rows!=problem.start[ask_o]).sum(1); L1=problem.distance(rows,ask_o)
            better=met&((L0<bL0[ask_o])|((L0==bL0[ask_o])&(L1<bL1[ask_o])))
            o=ask_o[better]; best[o]=rows[better]; bL0[o]=L0[better]; bL1[o]=L1[better]
            nearer=~met&(g<closest[ask_o]); closest[ask_o[nearer]]=g[nearer]; attempt[ask_o[nearer]]=rows[nearer]
            # dynamic proposals around the incumbents of active ones; and extended attempts
            solved=np.flatnonzero(np.isfinite(bL0)&active)
            dyn_v,dyn_o=self._around(problem,best,solved)
            dyn_g=self.gap_of(problem,dyn_v,dyn_o) if len(dyn_o) else np.zeros(0)
        met=np.isfinite(bL0)
        stage=np.where(met,"imagined","").astype(object)
        out=np.where(met[:,None],best,attempt)
        open_=np.flatnonzero(~met)
        if len(open_) and self.fallback:
            part=problem.part(open_)
            v,m=greedy_search(part,self.fallmoves_,part.max_changes)
            s=np.flatnonzero(m)
            v[s]=refine(part,v[s],s)
            out[open_]=v; met[open_]=m; stage[open_[s]]="fallback"
        return out,met,stage

    def _around(self,problem,best,solved):
        """Shorter variants of the incumbents: each changed number at shares of its way; and without one change."""
        if len(solved)==0: return np.zeros((0,problem.start.shape[1])),np.zeros(0,int)
        ch=best[solved]!=problem.start[solved]
        r,j=np.nonzero(ch)
        q=solved[r]
        out_v,out_o=[],[]
        multi=ch.sum(1)[r]>1
        v=best[q[multi]].copy(); v[np.arange(len(v)),j[multi]]=problem.start[q[multi],j[multi]]
        out_v.append(v); out_o.append(q[multi])
        num=~self.space_.is_categorical[j]
        for s in (0.05,0.1,0.2,0.3,0.4,0.5,0.6,0.7,0.8,0.9,0.95):
            v=best[q[num]].copy(); a=np.arange(len(v)); jj=j[num]
            v[a,jj]=problem.start[q[num],jj]+s*(v[a,jj]-problem.start[q[num],jj])
            out_v.append(v); out_o.append(q[num])
        numf=~self.space_.is_categorical
        for s in (0.5,0.7,0.8,0.9,0.95):
            v=problem.start[solved]+np.where(numf,s,1.0)*(best[solved]-problem.start[solved])
            out_v.append(v); out_o.append(solved)
        V=np.concatenate(out_v); O=np.concatenate(out_o)
        return problem.limits.take(O).project(V,problem.start[O]),O

    def _gp(self,X,res,cnt,Z,owner):
        """Posterior mean and sd of the residual at Z."""
        s2=self.sigma_**2; B,m=res.shape
        m=cnt.max()
        X=X[:,:m]; res=res[:,:m]
        live=np.arange(m)[None]<cnt[:,None]
        D=((X[:,:,None,:]-X[:,None,:,:])**2).sum(-1)
        K=s2*np.exp(-D/(2*self.ell**2))
        K=np.where(live[:,:,None]&live[:,None,:],K,0)+np.eye(m)[None]*np.where(live,1e-3*s2,1.0)[:,:,None]
        L=np.linalg.inv(K)
        alpha=(L@res[:,:,None])[:,:,0]
        # chunks over Z
        mu=np.empty(len(Z)); var=np.empty(len(Z))
        for i in range(0,len(Z),20000):
            o=owner[i:i+20000]
            k=s2*np.exp(-((Z[i:i+20000,None,:]-X[o])**2).sum(-1)/(2*self.ell**2))*live[o]
            mu[i:i+20000]=(k*alpha[o]).sum(1)
            var[i:i+20000]=s2-np.einsum("ni,nij,nj->n",k,L[o],k)
        return mu,np.sqrt(np.maximum(var,1e-6*s2))

def top(group,key,k):
    order=np.lexsort((key,group)); g=group[order]
    pos=np.arange(len(g)); first=np.append(True,g[1:]!=g[:-1])[:len(g)]
    rank=pos-np.maximum.accumulate(np.where(first,pos,0))
    return order[rank<k]
