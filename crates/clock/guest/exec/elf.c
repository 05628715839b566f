/* Finding clock_gettime as a libc does: AT_SYSINFO_EHDR, then the dynamic symbols. */
#include "exec.h"

#include <elf.h>

static u64 base_of_vdso(u64 *auxv)
{
	for (; auxv[0]; auxv += 2)
		if (auxv[0] == AT_SYSINFO_EHDR)
			return auxv[1];
	return 0;
}

clock_fn virtual_clock(u64 *auxv)
{
	u64 base = base_of_vdso(auxv);
	if (!base)
		return 0;
	const Elf64_Ehdr *ehdr = (const void *)base;
	const Elf64_Phdr *phdr = (const void *)(base + ehdr->e_phoff);
	const Elf64_Dyn *dynamic = 0;
	for (int i = 0; i < ehdr->e_phnum; i++)
		if (phdr[i].p_type == PT_DYNAMIC)
			dynamic = (const void *)(base + phdr[i].p_vaddr);
	const Elf64_Sym *symbols = 0;
	const char *names = 0;
	const u32 *hash = 0;
	for (; dynamic && dynamic->d_tag; dynamic++) {
		const void *at = (const void *)(base + dynamic->d_un.d_ptr);
		if (dynamic->d_tag == DT_SYMTAB)
			symbols = at;
		else if (dynamic->d_tag == DT_STRTAB)
			names = at;
		else if (dynamic->d_tag == DT_HASH)
			hash = at;
	}
	if (!symbols || !names || !hash)
		return 0;
	for (u32 i = 0; i < hash[1]; i++)
		if (symbols[i].st_shndx && same(names + symbols[i].st_name, "__vdso_clock_gettime"))
			return (clock_fn)(base + symbols[i].st_value);
	return 0;
}

bool is_dilated(u64 *auxv)
{
	return base_of_vdso(auxv) == DIORAMA_IMAGE;
}

clock_fn real_clock(u64 *auxv)
{
	/* Where rdtsc is virtual, this reads no real time. Where it makes a system call, that is let through (trap.c). */
	if (is_dilated(auxv))
		return STATE->given.tsc_cycles ? 0 : (clock_fn)STATE->given.vdso_clock_gettime;
	return virtual_clock(auxv);
}
