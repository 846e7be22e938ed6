/* Lane scale, the default of hz3, for any number of threads: every knob has its default (heap/knobs.def,
   engine_knobs.def). */
#ifndef HZ3_LANES_SCALE_H
#define HZ3_LANES_SCALE_H

#define HZ_LANE_NAME "scale"

#endif
