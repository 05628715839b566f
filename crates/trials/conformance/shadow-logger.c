/* Stands in for Shadow's logger, which some of its tests in C call, and which cannot be built without the rest. */
#include <stdlib.h>

void *logger_getDefault(void)
{
	return 0;
}

void logger_log(void *logger, ...)
{
	(void)logger;
}

_Noreturn void logger_abort(void)
{
	abort();
}
