#include "sim/select/replay.h"
