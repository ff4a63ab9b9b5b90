import sys; sys.path[:0]=["/tmp/p19","/tmp/p19/v2"]
from dev import *; from worlds import *
import time
for name in ["wave2/xgb","german/rf"]:
    task=load_task(name); sp=task.space; v=sp.values(task.X_train); rng=np.random.default_rng(0)
    y=rng.normal(size=(900,1))+v[rng.integers(0,len(v),900)][:,:1]
    x=v[rng.integers(0,len(v),900)]
    y=np.sin(x[:,:1]/sp.scale[0])+x[:,1:2]/sp.scale[1]*(x[:,2:3]>sp.mean[2])
    f=np.repeat(np.arange(len(sp)),10); val=np.concatenate([np.quantile(v[:,j],np.linspace(0,1,10),method="nearest") for j in range(len(sp))])
    for W in (NetworkWorld,TreeWorld):
        t=time.process_time(); w=W(sp,v).fit(x,y); ft=time.process_time()-t
        st=v[rng.integers(0,len(v),1000)]
        t=time.process_time(); out=w.moves(st,f,w.table(f,val)); mt=time.process_time()-t
        r=rng.integers(0,1000,200); m=rng.integers(0,len(f),200); z=st[r].copy(); z[np.arange(200),f[m]]=val[m]
        print(name,W.__name__,"fit",round(ft,2),"us per query",round(1e6*mt/1000,1),"M",len(f),"err",np.abs(w.predict(z)-out[r,m]).max(), "r2",1-((w.predict(x)-y)**2).sum()/((y-y.mean())**2).sum())
        ch=rng.integers(0,len(f),(1000,16)); o2=w.moves(st,f,w.table(f,val),ch); print(np.abs(o2-np.take_along_axis(out,ch[:,:,None],1)).max())
