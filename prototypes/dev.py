import sys,time,warnings; warnings.simplefilter("ignore")
sys.path.insert(0,"/tmp/p19")
import numpy as np, torch; torch.set_num_threads(1)
from relax_plugin import make_explainer
from relax_plugin.evaluation.tasks import load_task
def cell(e,train,dev,tag):
    t=time.process_time(); e.fit(train); f=time.process_time()-t
    t=time.process_time(); c=e.explain(dev); x=time.process_time()-t
    return e,c,f,x
def stats(space,c,dev):
    v=c.values[:,0]; s=space.values(dev); return c.found[:,0],(v!=s).sum(1),space.distance(v,s)
def compare(name,explainers,seed=0,n=150,ref="greedy"):
    task=load_task(name,seed)
    rng=np.random.default_rng(seed); perm=rng.permutation(len(task.X_train))
    k=min(n,len(perm)//3)
    dev=task.X_train.iloc[perm[:k]]; train=task.X_train.iloc[perm[k:]]
    base=None
    for tag,make in explainers:
        e,c,f,x=cell(make(task),train,dev,tag)
        found,l0,l1=stats(task.space,c,dev)
        if base is None: base=(found,l0,l1)
        com=found&base[0]
        st,cn=np.unique(c.stage[:,0].astype(str),return_counts=True)
        print(f"{name:18s} {tag:22s} val {found.mean():.3f} L0 {l0[com].sum()/base[1][com].sum():.3f} L1 {l1[com].sum()/base[2][com].sum():.3f} rows {c.rows_queried.mean():7.1f} fitrows {e.fit_rows_:5d} fit {f:.2f}s exp {1000*x/len(dev):.2f}ms/q {dict(zip(st,cn))}",flush=True)
