/* Lane percpu, for hundreds of threads on few CPUs: free blocks rest in bins of the CPUs, not of the threads. */
#ifndef HZ3_LANES_PERCPU_H
#define HZ3_LANES_PERCPU_H

#define HZ_LANE_NAME "percpu"

#define LANE_HZ_CPU_BYTES HZ_SET(1048576)
#define LANE_HZ_BIN_BYTES HZ_SET(16384) /* each CPU has slots for bins of this size */
#define LANE_HZ_BIN_COUNT HZ_SET(256)

#endif
