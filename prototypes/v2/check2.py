import sys; sys.path[:0]=["/tmp/p19","/tmp/p19/v2"]
from dev import *; import worlds
from relax_plugin.world_model.boosted import BoostedTrees
from relax_plugin.world_model.network import TabledNetwork
import time
for name in ["wave2/xgb","german/rf"]:
    task=load_task(name); sp=task.space; v=sp.values(task.X_train); rng=np.random.default_rng(0)
    x=v[rng.integers(0,len(v),900)]
    y=np.sin(x[:,:1]/sp.scale[0])+x[:,1:2]/sp.scale[1]*(x[:,2:3]>sp.mean[2])
    f=np.repeat(np.arange(len(sp)),10); val=np.concatenate([np.quantile(v[:,j],np.linspace(0,1,10),method="nearest") for j in range(len(sp))])
    for W,O in ((TabledNetwork,worlds.NetworkWorld),(BoostedTrees,worlds.TreeWorld)):
        t=time.process_time(); w=W(sp,v).fit(x,y); ft=time.process_time()-t
        o=O(sp,v).fit(x,y)
        st=v[rng.integers(0,len(v),1000)]
        tab=w.table(f,val); t=time.process_time(); out=w.predict_moves(st,f,tab); mt=time.process_time()-t
        r=rng.integers(0,1000,200); m=rng.integers(0,len(f),200); z=st[r].copy(); z[np.arange(200),f[m]]=val[m]
        ch=rng.integers(0,len(f),(1000,16)); o2=w.predict_moves(st,f,tab,ch)
        print(name,W.__name__,"fit",round(ft,2),"us",round(1e3*mt,1),"err",np.abs(w.predict(z)-out[r,m]).max(),np.abs(o2-np.take_along_axis(out,ch[:,:,None],1)).max(),"same as proto",np.abs(w.predict(st)-o.predict(st)).max())
