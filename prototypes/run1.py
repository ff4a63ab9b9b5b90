import sys; sys.path.insert(0,"/tmp/p19")
from dev import *; from proto import Imagined
T=sys.argv[1].split(",")
for t in T:
    compare(t,[("greedy",lambda k:make_explainer("greedy",k.model,k.space,goal=k.goal)),
      ("surrogate",lambda k:make_explainer("surrogate-search",k.model,k.space,goal=k.goal)),
      ("imagined12",lambda k:Imagined(k.model,k.space,goal=k.goal))])
