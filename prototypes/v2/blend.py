import sys; sys.path[:0]=["/tmp/p19","/tmp/p19/v2"]
from dev import *; import json, imagined
from imagined import Imagined
from worlds import *
from relax_plugin.answers import Answer
from relax_plugin.search.greedy import Moves
from relax_plugin.world_model.sampling import Mixing, mixtures, moved, QUANTILES
from relax_plugin.problem import Problem
class Blend:
    def __init__(self,a,b,w): self.a,self.b,self.w=a,b,w
    def predict(self,v):
        if self.w<=0: return self.b.predict(v)
        if self.w>=1: return self.a.predict(v)
        return self.w*self.a.predict(v)+(1-self.w)*self.b.predict(v)
    def table(self,f,v): return (self.a.table(f,v),self.b.table(f,v))
    def moves(self,s,f,t,c=None):
        if self.w<=0: return self.b.moves(s,f,t[1],c)
        if self.w>=1: return self.a.moves(s,f,t[0],c)
        return np.float32(self.w)*self.a.moves(s,f,t[0],c)+np.float32(1-self.w)*self.b.moves(s,f,t[1],c)
class IB(Imagined):
    def _fit(self,values,rng):
        bb,space=self.blackbox_,self.space_
        self.T_=Targets(bb)
        self.moves_=Moves.quantiles(values,space,self.grid); self.fall_=Moves.quantiles(values,space,20)
        seen,answer=self.known_; left=(self.fit_rows-self.fit_rows_)//bb.rows_per_question
        passive=left-int(left*self.active); seed=int(rng.integers(2**31))
        fresh=moved(mixtures(values,space,Mixing(),rng,passive),space,Moves.quantiles(values,space,QUANTILES),rng)
        seen=np.concatenate([seen,fresh]); answer=Answer.joined(answer,bb.ask(fresh)); left-=passive
        t=self.T_.of(answer)
        a,b=NetworkWorld(space,values,seed).fit(seen,t),TreeWorld(space,values,seed).fit(seen,t)
        self.world_=Blend(a,b,.5); self.sigma_=.3*float(t.std())
        ix=rng.integers(0,len(values),left); start=values[ix]; before=self._answer(self.world_.predict(start))
        problem=Problem(space,bb,start,before,self.goal_.bind(bb,before),space.limits(),self._most_changes(),np.zeros(len(start),dtype=np.int64))
        vals,gap=self._pool(problem)[:2]
        ei=self._value(problem,vals,gap,np.full(gap.shape,self.sigma_),np.full(len(start),np.inf),np.full(len(start),np.inf))
        pick=(np.log(ei+1e-12)+.5*rng.gumbel(size=ei.shape)).argmax(1); more=vals[np.arange(len(start)),pick]
        ans=bb.ask(more); tm=self.T_.of(ans)
        pa,pb=a.predict(more),b.predict(more); d=pa-pb
        w=float(np.clip(((tm-pb)*d).sum()/max((d*d).sum(),1e-12),0,1))
        w=0. if w<.15 else 1. if w>.85 else w
        seen=np.concatenate([seen,more]); answer=Answer.joined(answer,ans); ta=self.T_.of(answer)
        r=tm-(w*pa+(1-w)*pb)
        a2=NetworkWorld(space,values,seed).fit(seen,ta) if w>0 else a
        b2=TreeWorld(space,values,seed).fit(seen,ta) if w<1 else b
        self.world_=Blend(a2,b2,w); self.sigma_=max(self.sig*float(np.sqrt((r**2).mean())),1e-9); self.training_=values
        print("   w",round(w,2))
T=sys.argv[1].split(","); opts=[json.loads(x) for x in sys.argv[2:]] or [{}]
for t in T:
    compare(t,[("greedy",lambda k:make_explainer("greedy",k.model,k.space,goal=k.goal))]+[(str(o)[:50],lambda k,o=o:IB(k.model,k.space,goal=k.goal,**o)) for o in opts])
