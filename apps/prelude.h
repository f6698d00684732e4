#include "apps/lammps/kernels.h"
