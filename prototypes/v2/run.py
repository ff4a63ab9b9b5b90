import sys; sys.path[:0]=["/tmp/p19","/tmp/p19/v2"]
from dev import *; from imagined import Imagined
import json
T=sys.argv[1].split(","); opts=[json.loads(a) for a in sys.argv[2:]] or [{}]
for t in T:
    compare(t,[("greedy",lambda k:make_explainer("greedy",k.model,k.space,goal=k.goal))]+[(str(o)[:40],lambda k,o=o:Imagined(k.model,k.space,goal=k.goal,**o)) for o in opts])
