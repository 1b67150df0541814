"""Which formats should a whole model have on this chip: the plans worth weighing, their times, memory and quality, the choice."""
