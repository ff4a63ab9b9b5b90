import sys; sys.path.insert(0,"/tmp/p19")
from dev import *; from proto import Imagined, top
from relax_plugin.problem import Problem
import torch, pickle
from torch import nn
from sklearn.ensemble import HistGradientBoostingRegressor, ExtraTreesRegressor, GradientBoostingRegressor
from relax_plugin.world_model.model import WorldModel
out={}
for name in sys.argv[1].split(","):
    task=load_task(name,0); rng=np.random.default_rng(0); perm=rng.permutation(len(task.X_train)); k=min(150,len(perm)//3)
    dev=task.X_train.iloc[perm[:k]]; train=task.X_train.iloc[perm[k:]]
    seen=[]
    class Rec(Imagined):
        pass
    e=Imagined(task.model,task.space,goal=task.goal)
    # capture fitted rows
    orig=WorldModel.fit
    def fit(self,v,a,ep=20): seen.append((v,a)); return orig(self,v,a,ep)
    WorldModel.fit=fit
    e.fit(train); WorldModel.fit=orig
    v,a=seen[-1]
    bb=e.blackbox_
    # visited rows from dev queries: those asked in explain
    asked=[]
    oj=Problem.ask
    def ask(self,values,owner):
        r=oj(self,values,owner); asked.append((values.copy(),r)); return r
    Problem.ask=ask
    e.fallback=False
    e.explain(dev); Problem.ask=oj
    V=np.concatenate([x for x,_ in asked]); 
    W=e.world_
    T=np.concatenate([W.targets(r) for _,r in asked])
    inp=W._inputs(v).numpy(); inpV=W._inputs(V).numpy(); t=W.targets(a)
    out[name]=(inp,t,inpV,T,v,V,task.space.is_categorical)
    print(name,inp.shape,inpV.shape,t.shape,flush=True)
pickle.dump(out,open("/tmp/p19/wm.pkl","wb"))
