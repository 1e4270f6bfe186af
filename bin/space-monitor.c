/* SPDX-License-Identifier: Apache-2.0 */
/* The parent of one sandbox's VMM. Not for a user's PATH: started by the lifecycle tools or by
 * space-launch@.service, with a socket at descriptor 3 on which the spec comes and the report goes
 * (monitor/ctl.h). */
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>

#include "monitor/keeper.h"
#include "sys/fd.h"
#include "sys/proc.h"
#include "text/log.h"
#include "vol/store.h"

#define SPEC_FD 3

static int start(struct sp_keeper *k, struct sp_mon_report *rep, struct sp_err *e)
{
	int nfds = 0;

	if (sp_sock_recv(SPEC_FD, &k->spec, sizeof k->spec, NULL, &nfds) !=
		    (ssize_t)sizeof k->spec ||
	    k->spec.size != sizeof k->spec)
		return sp_fail(e, SP_USAGE, 0, "no start request of this release at descriptor 3");
	if (!sp_id_is_valid(k->spec.sandbox, SP_SANDBOX) ||
	    (k->spec.base[0] && !sp_id_is_valid(k->spec.base, SP_CHECKPOINT)))
		return sp_fail(e, SP_USAGE, 0, "not an id in the start request");
	if (sp_store_open(&k->roots, false, e) < 0)
		return -1;
	return sp_keeper_start(k, rep, e);
}

int main(void)
{
	struct sp_keeper k = { .run = -1, .box = -1, .life = -1, .disk = -1, .mem = -1, .prev = -1,
			       .ctl = -1, .half = -1, .starter = SPEC_FD, .net = -1, .tap = -1,
			       .vmm_pidfd = -1, .reader_pidfd = -1, .slot = { .fd = -1 } };
	struct sp_mon_report rep = { .size = sizeof rep };
	struct sp_err e = { .code = SP_OK };
	int rc;

	signal(SIGPIPE, SIG_IGN);
	prctl(PR_SET_PDEATHSIG, 0); /* some launchers set one */
	sp_fd_cloexec(SPEC_FD, 1);
	rc = start(&k, &rep, &e);
	if (rc < 0) {
		rep.code = (int)e.code;
		snprintf(rep.message, sizeof rep.message, "%.*s", (int)sizeof rep.message - 1,
			 e.msg);
		if (e.code != SP_BUSY || k.vm != SP_VM_RUNNING)
			sp_keeper_end(&k);
	}
	if (sp_sock_send(SPEC_FD, &rep, sizeof rep, NULL, 0) < 0 && k.vm == SP_VM_RUNNING) {
		/* Nobody knows of it, and whoever repairs its operation takes it for not begun. */
		sp_fail(&e, SP_FAIL, 0, "its starter is gone");
		sp_keeper_end(&k);
		k.vm = SP_VM_ENDED;
	}
	sp_fd_close(&(int){ SPEC_FD });
	if (k.vm != SP_VM_RUNNING) {
		sp_log(SP_LOG_ERR, "%s", e.msg);
		return rc < 0 ? (int)e.code : 1;
	}
	/* From here on: reading the VMM's memory (and its pagemap, a file of its uid), deleting
	 * subvolumes, ending processes of other uids. */
	if (sp_priv_keep(1ULL << CAP_SYS_PTRACE | 1ULL << CAP_DAC_READ_SEARCH |
				 1ULL << CAP_SYS_ADMIN | 1ULL << CAP_KILL,
			 &e) < 0)
		sp_log(SP_LOG_WARN, "%s", e.msg);
	sp_keeper_serve(&k);
	return 0;
}
