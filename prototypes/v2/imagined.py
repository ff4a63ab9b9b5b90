"""Imagined search, dense."""
import numpy as np, time
from scipy.special import ndtr
from relax_plugin.base import CounterfactualExplainer, Supports
from relax_plugin.answers import Answer
from relax_plugin.problem import Problem, Proposals
from relax_plugin.search.greedy import Moves, greedy_search
from relax_plugin.search.refine import refine
from relax_plugin.world_model.sampling import Mixing, mixtures, moved, QUANTILES
from worlds import NetworkWorld, TreeWorld, Targets

class Imagined(CounterfactualExplainer):
    supports = Supports(labels_only=False)
    def __init__(self, model, space=None, *, goal=None, max_changes=5, seed=0, rows=12, fit_rows=1000, active=0.5, beam=4, grid=10, ell=2.0, stop=0.01, pool=12, kept=32, world="auto", fallback=True, longer=40, short=11, near1=1.0, sig=1.0):
        super().__init__(model, space, goal=goal, max_changes=max_changes, seed=seed)
        for k,v in list(locals().items()):
            if k not in ("self","model","space","goal","max_changes","seed","__class__"): setattr(self,k,v)
    def _most_fit_rows(self): return self.fit_rows
    def _check_parameters(self): pass
    # ---- fit
    def _fit(self, values, rng):
        bb,space=self.blackbox_,self.space_
        self.T_=Targets(bb)
        self.moves_=Moves.quantiles(values,space,self.grid); self.fall_=Moves.quantiles(values,space,20)
        seen,answer=self.known_; left=(self.fit_rows-self.fit_rows_)//bb.rows_per_question
        passive=left-int(left*self.active); seed=int(rng.integers(2**31))
        fresh=moved(mixtures(values,space,Mixing(),rng,passive),space,Moves.quantiles(values,space,QUANTILES),rng)
        seen=np.concatenate([seen,fresh]); answer=Answer.joined(answer,bb.ask(fresh)); left-=passive
        t=self.T_.of(answer)
        kinds={"net":NetworkWorld,"trees":TreeWorld}
        worlds={k:W(space,values,seed).fit(seen,t) for k,W in kinds.items() if self.world in ("auto",k)}
        name=next(iter(worlds)); self.world_=worlds[name]
        # residual guess for the first proposals
        self.sigma_=0.3*float(self.gap_scale(t))
        if left>0:
            parts=[]
            names=list(worlds)
            idx=rng.integers(0,len(values),left); share=np.array_split(idx,len(names))
            for nm,ix in zip(names,share):
                self.world_=worlds[nm]
                start=values[ix]; tb=self.world_.predict(start); before=self._answer(tb)
                problem=Problem(space,bb,start,before,self.goal_.bind(bb,before),space.limits(),self._most_changes(),np.zeros(len(start),dtype=np.int64))
                vals,gap=self._pool(problem)[:2]
                ei=self._value(problem,vals,gap,np.full(gap.shape,self.sigma_),np.full(len(start),np.inf),np.full(len(start),np.inf))
                noisy=np.log(ei+1e-12)+.5*rng.gumbel(size=ei.shape)
                pick=noisy.argmax(1); rows=vals[np.arange(len(start)),pick]
                parts.append(rows)
            more=np.concatenate(parts); ans=bb.ask(more); tm=self.T_.of(ans)
            errors={nm:np.sqrt(np.median((w.predict(more)-tm)**2)) + 0*1 for nm,w in worlds.items()}
            rms={nm:float(np.sqrt(((w.predict(more)-tm)**2).mean())) for nm,w in worlds.items()}
            # on the rows the other proposed, so that none is judged by rows that its own errors chose
            if len(names)>1:
                cut=np.cumsum([len(p) for p in parts])[:-1]; seg=np.split(np.arange(len(more)),cut)
                judged={names[0]:seg[1],names[1]:seg[0]}
                rms={nm:float(np.sqrt(((worlds[nm].predict(more)-tm)**2).mean())) for nm in names}
            best=min(rms,key=rms.get); self.chosen_=best; self.rms_=rms
            seen=np.concatenate([seen,more]); answer=Answer.joined(answer,ans)
            self.world_=kinds[best](space,values,seed).fit(seen,self.T_.of(answer))
            self.sigma_=max(self.sig*rms[best],1e-9)
        self.training_=values
    def gap_scale(self,t): return t.std()
    def _answer(self,t):
        if self.T_.regression: return Answer(t[:,0])
        if self.T_.outputs==2: t=np.column_stack([-t[:,0]/2,t[:,0]/2])
        out=t.argmax(1).astype(float); e=np.exp(t-t.max(1,keepdims=True))
        return Answer(out,e/e.sum(1,keepdims=True) if self.blackbox_.reader.score_kind=="probability" else t)
    # ---- what an answer is worth
    def _value(self,problem,vals,gap,sigma,b0,b1):
        ch=vals!=problem.start[:,None]; L0=ch.sum(-1); L1=self._L1(problem,vals)
        return self._worth(problem,gap,sigma,L0,L1,b0,b1)
    def _L1(self,problem,vals):
        return np.where(self.space_.is_categorical,vals!=problem.start[:,None],np.abs(vals-problem.start[:,None])/self.space_.scale).sum(-1)
    def _worth(self,problem,gap,sigma,L0,L1,b0,b1):
        p=ndtr(-gap/sigma); most=problem.max_changes
        none=~np.isfinite(b0)[:,None]; b0=np.where(none,most+1,b0[:,None]); b1=np.where(np.isfinite(b1),b1,1.0)[:,None]
        fewer=b0-L0
        gain=np.where(none,fewer+self.near1/(1+L1),np.where(fewer>0,fewer,np.where(fewer==0,.5*np.maximum(1-L1/np.maximum(b1,1e-12),0),0)))
        return np.where((L0>0)&np.isfinite(gap),p*gain,0.0)
    # ---- proposals
    def _call_moves(self,problem):
        """The values of a call: the grid within its bounds, and the bounds."""
        lo,hi=problem.limits.ends; lo,hi=np.broadcast_to(lo,problem.start.shape)[0],np.broadcast_to(hi,problem.start.shape)[0]
        f,v=self.moves_.feature,np.clip(self.moves_.value,lo[self.moves_.feature],hi[self.moves_.feature])
        key=np.unique(np.stack([f,v],1),axis=0); f,v=key[:,0].astype(int),key[:,1]
        return f,v
    def _pool(self,problem):
        B,d=problem.start.shape; W=self.world_; start=problem.start
        f,v=self._call_moves(problem); M=len(f); table=W.table(f,v)
        low,high=problem.span
        s_f=start[:,f]
        allowed=(v!=s_f)&(v>=low[:,f])&(v<=high[:,f])&~np.broadcast_to(problem.limits.frozen,start.shape)[:,f]
        for j in np.flatnonzero(self.space_.is_categorical):
            m=np.flatnonzero(f==j); off=problem.limits.category_offsets[j]
            allowed[:,m]&=np.broadcast_to(problem.limits.choices,(B,problem.limits.choices.shape[1]))[:,off+v[m].astype(int)]
        cat=self.space_.is_categorical[f]
        cost=np.where(cat,1.0,np.abs(v-s_f)/self.space_.scale[f])          # (B,M)
        g0=self.T_.gap(problem.goal,W.predict(start)); r0=problem.gap-g0
        sq=np.where(cat,2.0,cost**2)
        G=self.T_.gap(problem.goal,W.moves(start,f,table))+r0[:,None]*np.exp(-sq/(2*self.ell**2))
        G=np.where(allowed,G,np.inf)
        P=[];  # per depth: owner, values, gap
        most=problem.max_changes
        k=min(self.pool,M)
        none=np.full(B,np.inf)
        val=self._worth(problem,G,self.sigma_,np.ones_like(G),cost,none,none)
        top=np.argpartition(-val,k-1,axis=1)[:,:k] if k<M else np.tile(np.arange(M),(B,1))
        vals=np.repeat(start[:,None],k,1); np.put_along_axis(vals,f[top][:,:,None],v[top][:,:,None],2)
        out_v=np.repeat(start[:,None],k*most,1); out_g=np.full((B,k*most),np.inf)
        out_v[:,:k]=vals; out_g[:,:k]=np.take_along_axis(G,top,1)
        # the moves used further on
        K=min(self.kept,M); kept=np.argpartition(G,K-1,axis=1)[:,:K] if K<M else np.tile(np.arange(M),(B,1))
        # beam: best value of each feature
        first=np.unique(f,return_index=True)[1]
        best=np.minimum.reduceat(G,first,axis=1)                               # (B, features present)
        nb=min(self.beam,best.shape[1])
        bf=np.argpartition(best,nb-1,axis=1)[:,:nb] if nb<best.shape[1] else np.tile(np.arange(best.shape[1]),(B,1))
        # index of the move
        mv=np.empty((B,nb),int)
        for b in range(nb):
            # argmin within the segment
            seg=np.repeat(np.arange(len(first)),np.diff(np.append(first,M)))
            mask=seg[None]==bf[:,b][:,None]
            mv[:,b]=np.where(mask,G,np.inf).argmin(1)
        live=np.arange(B); sure=ndtr(-np.take_along_axis(G,top,1).min(1)/self.sigma_)
        beam_v=np.repeat(start[:,None],nb,1); np.put_along_axis(beam_v,f[mv][:,:,None],v[mv][:,:,None],2)
        beam_c=np.take_along_axis(cost,mv,1); beam_q=np.take_along_axis(sq,mv,1); beam_ok=np.isfinite(np.take_along_axis(G,mv,1))
        rnd=np.random.default_rng(0).standard_normal(M); beam_h=rnd[mv]
        bestp=sure
        for depth in range(1,most):
            go=bestp<0.98
            if not go.any(): break
            live=live[go]; beam_v,beam_c,beam_q,beam_ok,beam_h,kp=beam_v[go],beam_c[go],beam_q[go],beam_ok[go],beam_h[go],kept[live]
            n,nb=beam_ok.shape
            flat=beam_v.reshape(n*nb,d); ch=np.repeat(kp,nb,0)
            t=W.moves(flat,f,table,ch)                                          # (n*nb,K,C)
            goal=problem.goal.take(np.repeat(live,nb))
            q=np.repeat(beam_q.reshape(-1),1)[:,None]+sq[np.repeat(live,nb)[:,None],ch]
            g=self.T_.gap(goal,t)+np.repeat(r0[live],nb)[:,None]*np.exp(-q/(2*self.ell**2))
            used=np.take_along_axis(flat!=np.repeat(start[live],nb,0),f[ch],1)
            ok=allowed[np.repeat(live,nb)[:,None],ch]&~used&beam_ok.reshape(-1)[:,None]
            g=np.where(ok,g,np.inf).reshape(n,nb*K)
            c=(beam_c.reshape(-1)[:,None]+cost[np.repeat(live,nb)[:,None],ch]).reshape(n,nb*K); q=q.reshape(n,nb*K)
            h=(beam_h.reshape(-1)[:,None]+rnd[ch]).reshape(n,nb*K)
            # equal sets: keep one
            o=np.argsort(h,axis=1); hs=np.take_along_axis(h,o,1); dup=np.zeros_like(g,bool)
            np.put_along_axis(dup,o[:,1:],np.abs(np.diff(hs,axis=1))<1e-9,1)
            g=np.where(dup,np.inf,g)
            nn=np.full(n,np.inf)
            worth=self._worth(problem,g,self.sigma_,np.full_like(g,depth+1),c,nn,nn)
            kk=min(k,g.shape[1]); tp=np.argpartition(-worth,kk-1,axis=1)[:,:kk] if kk<g.shape[1] else np.tile(np.arange(g.shape[1]),(n,1))
            def build(ix):
                s,mvx=ix//K,np.take_along_axis(np.tile(kp,(1,nb)),ix,1)
                vv=np.take_along_axis(beam_v,s[:,:,None],1).copy(); np.put_along_axis(vv,f[mvx][:,:,None],v[mvx][:,:,None],2); return vv
            out_v[live,depth*k:depth*k+kk]=build(tp); out_g[live,depth*k:depth*k+kk]=np.take_along_axis(g,tp,1)
            bestp=ndtr(-np.take_along_axis(g,tp,1).min(1)/self.sigma_)
            if depth==most-1: break
            b=min(self.beam,g.shape[1]); nx=np.argpartition(g,b-1,axis=1)[:,:b] if b<g.shape[1] else np.tile(np.arange(g.shape[1]),(n,1))
            beam_v=build(nx); beam_c=np.take_along_axis(c,nx,1); beam_q=np.take_along_axis(q,nx,1); beam_h=np.take_along_axis(h,nx,1); beam_ok=np.isfinite(np.take_along_axis(g,nx,1))
        return out_v,out_g,r0
    # ---- asking
    def _generate(self,problem,n,rng):
        made=Proposals.empty(problem,n); self.clock_={}
        for index,part in problem.parts(2048):
            v,met,stage=self._solve(part)
            made.values[index,0]=v; made.offered[index,0]=met; made.stage[index,0]=stage
        return made
    def _solve(self,problem):
        B,d=problem.start.shape; everyone=np.arange(B)
        state=Asked(self,problem)
        vals,gap,r0=self._pool(problem)
        state.add(vals,gap-0.0, include_r0=True)
        R=self.rows
        state.rounds(R//2, until_valid=False)
        # shorten
        for turn in range(2):
            self._shorten(problem,state)
            state.rounds(R-state.used if turn else max((R-state.used)//2,2))
        # unsolved: longer
        met=np.isfinite(state.b0)
        out=np.where(met[:,None],state.best,state.attempt); stage=np.where(met,"imagined","").astype(object)
        open_=np.flatnonzero(~met)
        if len(open_) and self.fallback:
            part=problem.part(open_); v,m=greedy_search(part,self.fall_,part.max_changes); s=np.flatnonzero(m)
            v[s]=refine(part,v[s],s); out[open_]=v; met[open_]=m; stage[open_[s]]="fallback"
        return out,met,stage
    def _shorten(self,problem,state):
        """Variants of the best so far: nearer in one change, in all, or without one."""
        has=np.flatnonzero(np.isfinite(state.b0))
        if len(has)==0: return
        best,start=state.best[has],problem.start[has]; ch=best!=start
        n,d=best.shape; most=problem.max_changes
        order=np.argsort(~ch,axis=1,kind="stable")[:,:most]; is_=np.take_along_axis(ch,order,1)
        shares=np.linspace(0,1,self.short+1)[:-1]; shares=np.concatenate([shares,[.95]])
        num=~self.space_.is_categorical
        new=[]
        for k in range(most):
            j=order[:,k]
            for s in shares:
                w=best.copy(); i=np.arange(n); a=start[i,j]+s*(best[i,j]-start[i,j]); a=np.where(num[j],a,start[i,j]); w[i,j]=np.where(is_[:,k],a,best[i,j]); new.append(w)
        for s in (.3,.5,.7,.8,.9,.95):
            new.append(start+np.where(num,s,1.0)*(best-start))
        V=np.stack(new,1); P=V.shape[1]
        flat=problem.limits.take(np.repeat(has,P)).project(V.reshape(n*P,d),np.repeat(start,P,0))
        V=flat.reshape(n,P,d)
        # free: keep the 16 that promise most
        g=self.T_.gap(problem.goal.take(has),self.world_.predict(flat).reshape(n,P,-1))
        state.replace(has,V,g,16)

class Asked:
    """What was asked of each query, and what is believed of its proposals."""
    def __init__(self,owner,problem):
        self.o,self.problem=owner,problem; B,d=problem.start.shape
        self.b0=np.full(B,np.inf); self.b1=np.full(B,np.inf); self.best=problem.start.copy(); self.attempt=problem.start.copy(); self.closest=problem.gap.copy()
        self.scale=np.where(owner.space_.is_categorical,1.0,owner.space_.scale)
        self.cat=owner.space_.is_categorical
        self.points=[problem.start]; self.resid=[problem.gap-owner.T_.gap(problem.goal,owner.world_.predict(problem.start))]; self.live=[np.ones(B,bool)]
        self.active=np.ones(B,bool); self.used=0
        self.P=None
    def kernel(self,V,x):
        """V (B,P,d), x (B,d)."""
        dz=(V-x[:,None])/self.scale
        if self.cat.any(): dz=np.where(self.cat,(dz!=0)*1.4142,dz)
        return np.exp(-np.einsum("bpd,bpd->bp",dz,dz)/(2*self.o.ell**2))
    def add(self,V,gap,include_r0=True):
        """The first proposals; gap already includes what the start tells."""
        B=len(V); s2=self.o.sigma_**2
        self.V=V; self.L0=(V!=self.problem.start[:,None]).sum(-1); self.L1=self.o._L1(self.problem,V)
        self.raw=self.o.sigma_
        k=self.kernel(V,self.problem.start)
        self.mean=np.where(np.isfinite(gap),gap,np.inf); self.var=1-k**2/1.001
        self.cols=[k/np.sqrt(1.001)]                 # v_i(p), unit variance
        self.done=np.zeros(gap.shape,bool)
    def replace(self,has,V,g,keep):
        """New proposals for some of the queries, conditioned on all that was asked of them; others keep none."""
        B=len(self.b0); n=len(has); P=V.shape[1]; s=self.o.sigma_; m=len(self.points)
        pts=np.stack([p[has] for p in self.points],1); live=np.stack([l[has] for l in self.live],1); res=np.stack([r[has] for r in self.resid],1)
        def kern(A,Bm):
            dz=(A[:,:,None]-Bm[:,None])/self.scale
            if self.cat.any(): dz=np.where(self.cat,(dz!=0)*1.4142,dz)
            return np.exp(-(dz**2).sum(-1)/(2*self.o.ell**2))
        K=kern(pts,pts); K=np.where(live[:,:,None]&live[:,None],K,0)+np.eye(m)*np.where(live,.001,1.0)[:,:,None]
        Kinv=np.linalg.inv(K); alpha=np.einsum("bij,bj->bi",Kinv,res*live)
        # first by the cheap value with mean only at few? compute for all
        C=kern(V,pts)*live[:,None]
        mean=g+np.einsum("bpi,bi->bp",C,alpha); var=np.maximum(1-np.einsum("bpi,bij,bpj->bp",C,Kinv,C),1e-6)
        L0=(V!=self.problem.start[has][:,None]).sum(-1); L1=self.o._L1(self.problem.part(has),V)
        worth=self.o._worth(self.problem,mean,s*np.sqrt(var),L0,L1,self.b0[has],self.b1[has])
        top=np.argpartition(-worth,keep-1,axis=1)[:,:keep]
        # also what is left of the old ones with fewer changes
        old=np.argpartition(-self.o._worth(self.problem,self.mean[has],s*np.sqrt(self.var[has]),self.L0[has],self.L1[has],self.b0[has],self.b1[has])*~self.done[has],keep-1,axis=1)[:,:keep]
        take=lambda a,t:np.take_along_axis(a,t if a.ndim==2 else t[:,:,None],1)
        nV=np.concatenate([take(V,top),take(self.V[has],old)],1); nm=np.concatenate([take(mean,top),take(self.mean[has],old)],1); nv=np.concatenate([take(var,top),take(self.var[has],old)],1)
        nd=np.concatenate([np.zeros((n,keep),bool),take(self.done[has],old)],1)
        self.V=np.repeat(self.problem.start[:,None],2*keep,1); self.mean_=self.mean
        mean_=np.full((B,2*keep),np.inf); var_=np.ones((B,2*keep)); done=np.ones((B,2*keep),bool)
        self.V[has]=nV; mean_[has]=nm; var_[has]=nv; done[has]=nd
        # the unsolved keep their best
        rest=np.setdiff1d(np.arange(B),has)
        if len(rest):
            w=self.o._worth(self.problem,self.mean_[rest],s*np.sqrt(self.var[rest]),self.L0[rest],self.L1[rest],self.b0[rest],self.b1[rest])*~self.done[rest]
            t=np.argpartition(-w,min(2*keep,w.shape[1])-1,axis=1)[:,:2*keep]; c=t.shape[1]
            OV,om,ov,od=self._old
        self.L0_new=None
        if len(rest):
            self.V[rest,:c]=np.take_along_axis(OV[rest],t[:,:,None],1); mean_[rest,:c]=np.take_along_axis(om[rest],t,1); var_[rest,:c]=np.take_along_axis(ov[rest],t,1); done[rest,:c]=np.take_along_axis(od[rest],t,1)
        self.mean,self.var,self.done=mean_,var_,done
        self.L0=(self.V!=self.problem.start[:,None]).sum(-1); self.L1=self.o._L1(self.problem,self.V)
        # posterior covariances with the new arrays: columns again
        self.cols=[]
        Lc=None
        pts=np.stack(self.points,1); live=np.stack(self.live,1)
        K=kern(pts,pts); K=np.where(live[:,:,None]&live[:,None],K,0)+np.eye(m)*np.where(live,.001,1.0)[:,:,None]
        L=np.linalg.cholesky(K); Cn=kern(self.V,pts)*live[:,None]
        cols=np.linalg.solve(L,Cn.transpose(0,2,1))       # (B,m,P)
        self.cols=[cols[:,i] for i in range(m)]
    def rounds(self,count,until_valid=False):
        s=self.o.sigma_; B=len(self.b0); every=np.arange(B)
        self.active[:]=True
        for _ in range(count):
            worth=self.o._worth(self.problem,self.mean,s*np.sqrt(np.maximum(self.var,1e-6)),self.L0,self.L1,self.b0,self.b1)*~self.done
            pick=worth.argmax(1); who=np.flatnonzero((worth[every,pick]>self.o.stop)&self.active)
            self.active[:]=False; self.active[who]=True
            if len(who)==0: break
            self.used+=1
            p=pick[who]; rows=self.V[who,p]
            met,g=self.problem.judge(rows,who); self.done[who,p]=True
            innovation=g-self.mean[who,p]
            # GP update
            k=self.kernel(self.V[who],rows)
            for c in self.cols: k=k-c[who]*c[who,p][:,None]
            var=np.maximum(k[np.arange(len(who)),p],1e-9)+.001; col=np.zeros(self.mean.shape); col[who]=k/np.sqrt(var)[:,None]
            self.cols.append(col)
            mm=self.mean[who]+col[who]*(innovation/np.sqrt(var))[:,None]; self.mean[who]=mm; self.var[who]-=col[who]**2
            x=self.problem.start.copy(); x[who]=rows; r=np.zeros(B); r[who]=g-self.o.T_.gap(self.problem.goal.take(who),self.o.world_.predict(rows)); l=np.zeros(B,bool); l[who]=True
            self.points.append(x); self.resid.append(r); self.live.append(l)
            L0=self.L0[who,p]; L1=self.L1[who,p]
            better=met&((L0<self.b0[who])|((L0==self.b0[who])&(L1<self.b1[who]))); w=who[better]
            self.best[w]=rows[better]; self.b0[w]=L0[better]; self.b1[w]=L1[better]
            near=~met&(g<self.closest[who]); self.closest[who[near]]=g[near]; self.attempt[who[near]]=rows[near]
        self._old=(self.V,self.mean,self.var,self.done)
