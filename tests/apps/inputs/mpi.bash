# MPI over UCX, which replaces the calls that map memory: by itself, and with Open MPI's own hooks.
set -euo pipefail
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
mpicc -O1 "$INPUTS/mpi.c" -o mpi
for hooks in 0 1; do
    mpirun --oversubscribe -np 3 --mca pml ucx --mca osc ucx --mca pml_ucx_tls any --mca pml_ucx_devices any --mca osc_ucx_tls any \
        --mca osc_ucx_devices any --mca opal_common_ucx_opal_mem_hooks "$hooks" -x UCX_TLS=self,sm,tcp ./mpi
done
