import pickle,time,numpy as np,torch,warnings; warnings.simplefilter("ignore")
torch.set_num_threads(1)
from torch import nn
from sklearn.ensemble import HistGradientBoostingRegressor
out=pickle.load(open("/tmp/p19/wm.pkl","rb"))
def net(inp,t,V,hidden,steps=300,batch=128,lr=5e-3,wd=0.1,members=1,seed=0):
    torch.manual_seed(seed)
    layers=[]; d=inp.shape[1]
    for h in hidden: layers+=[nn.Linear(d,h),nn.ReLU()]; d=h
    layers.append(nn.Linear(d,t.shape[1])); m=nn.Sequential(*layers)
    opt=torch.optim.AdamW(m.parameters(),lr,weight_decay=wd)
    x=torch.tensor(inp); c=t.mean(0); s=t.std() or 1; y=torch.tensor((t-c)/s,dtype=torch.float32)
    for i in range(steps):
        idx=torch.randint(0,len(x),(batch,))
        loss=nn.functional.smooth_l1_loss(m(x[idx]),y[idx],beta=.3)
        opt.zero_grad(); loss.backward(); opt.step()
        for g in opt.param_groups: g["lr"]=lr*(1-.95*i/steps)
    with torch.no_grad(): return m(torch.tensor(V)).double().numpy()*s+c
def hgb(v,t,V,cat,**k):
    r=[]
    for j in range(t.shape[1]-(1 if t.shape[1]==2 else 0)):
        m=HistGradientBoostingRegressor(early_stopping=False,categorical_features=cat if cat.any() else None,**k).fit(v,t[:,j]); r.append(m.predict(V))
    r=np.stack(r,1)
    if t.shape[1]==2: r=np.column_stack([r,-r])
    return r
def r2(p,T,t): 
    return 1-((p-T)**2).sum()/((T-T.mean(0))**2).sum()
for name,(inp,t,inpV,T,v,V,cat) in out.items():
    line=[]
    for tag,f in [("64-64",lambda:net(inp,t,inpV,(64,64))),("64-64x500",lambda:net(inp,t,inpV,(64,64),500)),("64-32",lambda:net(inp,t,inpV,(64,32))),("128",lambda:net(inp,t,inpV,(128,))),("256",lambda:net(inp,t,inpV,(256,),lr=3e-3)),("256x600",lambda:net(inp,t,inpV,(256,),600,lr=5e-3)),
        ("hgb100",lambda:hgb(v,t,V,cat,max_iter=100,max_leaf_nodes=8,learning_rate=.15,min_samples_leaf=5)),("hgb60/16",lambda:hgb(v,t,V,cat,max_iter=60,max_leaf_nodes=16,learning_rate=.2,min_samples_leaf=5))]:
        c=time.process_time(); p=f(); c=time.process_time()-c
        line.append(f"{tag} {r2(p,T,t):.3f}({c:.2f}s)")
    print(name,"  ".join(line),flush=True)
