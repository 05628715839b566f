/* Stands in for Shadow's logger, which some of its tests in C call, and which cannot be built without the rest of it. */
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
