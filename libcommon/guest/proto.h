/* SPDX-License-Identifier: Apache-2.0 */
/* The guest channel: what space-guest (inside) and the monitor's reading half (outside) say to each
 * other over one byte stream (a virtio-serial port on QEMU). Version 1.
 *
 * Released versions are spoken for ever, since agents live on in saved memory: add types and field
 * tags, never change one. Every byte from the guest is hostile; the guest treats the host's as
 * trusted but still checks lengths.
 *
 * Synchronising. After every connect each side sends a 16-byte marker before its first frame and
 * throws away what it receives until the marker. At a cold boot it is SP_G_COLD_MARKER. Each
 * WELCOME hands the agent a fresh random marker for the *next* load (it is kept in the checkpoint's
 * record), because a load finds the agent in the middle of anything: it looks for that marker in
 * all that it receives, wherever it is in a frame, and when it comes drops its parser state, its
 * unsent output and all sessions, and answers with the same marker and a HELLO. Random, so that
 * no data that passes through can contain it.
 *
 *   cold boot  guest: marker HELLO           host: marker WELCOME   guest: READY
 *   load       host: marker WELCOME          guest: marker HELLO    guest: READY
 *
 * READY(generation) comes after the clock, entropy, identity and hooks are done: only then is the
 * sandbox ready. Frames on sessions before READY are a protocol error.
 *
 * Frame: 12-byte header, little endian, then len bytes.
 */
#ifndef SP_GUEST_PROTO_H
#define SP_GUEST_PROTO_H

#include <stdint.h>

#define SP_G_VERSION 1
#define SP_G_COLD_MARKER "SPACE-GUEST-01\r\n" /* 16 bytes */
#define SP_G_MARKER_LEN 16
#define SP_G_HEADER 12
#define SP_G_PAYLOAD 65536u      /* most bytes of one frame */
#define SP_G_WINDOW (256u * 1024) /* most unacknowledged bytes of one stream */
#define SP_G_SESSIONS 64u        /* at once, outside */
#define SP_G_PROCS 256u          /* known to the agent, ended ones included */

struct sp_g_header {
	uint32_t len;  /* of the payload */
	uint8_t type;  /* enum sp_g_type */
	uint8_t stream; /* 0 input, 1 output, 2 errors; else 0 */
	uint16_t zero;
	uint32_t chan; /* 0: the agent itself; else a session, numbered by the host */
};

/* H: from the host (or a client), G: from the guest. Payload "F": fields (see below). */
enum sp_g_type {
	/* channel 0 */
	/* G F: VERSION, GENERATION (last acknowledged, 0 at boot), VALUE = boot time ns */
	SP_G_HELLO = 1,
	/* H F: VERSION, GENERATION, SAME u8, TIME i64, ENTROPY, MARKER, HOSTNAME, ID */
	SP_G_WELCOME = 2,
	SP_G_READY = 3,   /* G F: GENERATION, VALUE = hooks that failed */
	SP_G_FREEZE = 4,  /* H F: VALUE = ms after which the agent thaws by itself */
	SP_G_FROZEN = 5,  /* G F: CODE (0 done) MESSAGE? */
	SP_G_THAW = 6,    /* H */
	SP_G_THAWED = 7,  /* G F: CODE */
	SP_G_METRICS = 8, /* H; answered by METRICS with F: MEM_TOTAL, MEM_FREE, LOAD, PROCS */

	/* sessions: the host opens with one of these on a new channel */
	/* F: ARG+, ENV*, USER?, CWD?, PROC, TTY u8, ROWS, COLS, DETACH u8, STDIN u8 */
	SP_G_EXEC = 16,
	/* F: PROC, OFF_OUT, OFF_ERR; OPENED tells OFF_IN, the input taken so far */
	SP_G_ATTACH = 17,
	/* answered by ENTRY*, END; ENTRY F: PROC, PID, STATE u8 'r' 'x', STATUS?, ARG+, TIME */
	SP_G_PS = 18,
	SP_G_KILL = 19,   /* F: PROC, SIGNAL; answered by END or ERROR */
	SP_G_READ = 20,   /* F: PATH; OPENED, stream 1 is the file's bytes, EOF, END */
	/* F: PATH, MODE, USER?; OPENED, stream 0 is the new content, EOF; END when durable in
	 * place */
	SP_G_WRITE = 21,
	SP_G_GET = 22,    /* F: PATH; OPENED, stream 1 is a tree (guest/tree.h), EOF, END */
	SP_G_PUT = 23,    /* F: PATH, USER?; OPENED, stream 0 is a tree, EOF; END */
	/* F: PATH; ENTRY, END. ENTRY F: PATH, MODE, SIZE, MTIME, UID, GID, LINK? */
	SP_G_STAT = 24,
	SP_G_LIST = 25,   /* F: PATH; ENTRY* by name (PATH: the name alone), END */
	SP_G_MKDIR = 26,  /* F: PATH, MODE, USER?; END (parents made; exists is fine) */
	SP_G_MOVE = 27,   /* F: PATH, LINK = new path; END */
	SP_G_REMOVE = 28, /* F: PATH; END (whole trees) */
	SP_G_DIAL = 29,   /* F: VALUE = TCP port on 127.0.0.1; OPENED; streams 0 and 1 both ways */

	/* within a session */
	SP_G_OPENED = 64, /* G F: PROC?, PID?, OFF_IN? */
	SP_G_DATA = 65,   /* both: u64 offset of the first byte in its stream, then bytes */
	SP_G_ACK = 66,    /* both: u64, the stream is consumed up to here */
	SP_G_EOF = 67,    /* both: u64, where the stream ends */
	/* H F: SIGNAL, to the process group (with a terminal: its foreground group) */
	SP_G_SIGNAL = 68,
	SP_G_RESIZE = 69, /* H F: ROWS, COLS */
	SP_G_EXIT = 70,   /* G F: STATUS as waitpid tells it; after EOF of the outputs */
	SP_G_ENTRY = 71,  /* G F */
	SP_G_END = 72,    /* G: the request is done, the session over */
	SP_G_ERROR = 73,  /* both F: CODE (enum sp_code), MESSAGE; the session is over */
	SP_G_CLOSE = 74,  /* H: the client is gone: detach; G never sends it */

	/* monitor to client only, never on the channel */
	SP_G_LOST = 96,   /* F: CODE, MESSAGE: the machine stops or is paused; attach again later */
};

/* Fields: tag u8, length u32, bytes; numbers are little endian of their own width (u64 unless
 * said). Unknown tags are passed over. A field that may repeat has * or + above. */
enum sp_g_tag {
	SP_T_VERSION = 1, /* u32 */
	SP_T_GENERATION = 2,
	SP_T_SAME = 3, /* u8: 1 resume of the same sandbox, 0 another one (branch, create) */
	SP_T_TIME = 4,
	SP_T_ENTROPY = 5, /* 64 bytes */
	SP_T_MARKER = 6,
	SP_T_HOSTNAME = 7,
	SP_T_ID = 8,
	SP_T_VALUE = 9,
	SP_T_CODE = 10, /* u32 */
	SP_T_MESSAGE = 11,
	SP_T_ARG = 12,
	SP_T_ENV = 13, /* K=V */
	SP_T_USER = 14, /* name, uid, name:group, uid:gid */
	SP_T_CWD = 15,
	SP_T_PROC = 16, /* id of SP_PROCESS kind, chosen by the client */
	SP_T_TTY = 17,
	SP_T_ROWS = 18, /* u32 */
	SP_T_COLS = 19, /* u32 */
	SP_T_DETACH = 20,
	SP_T_STDIN = 21,
	SP_T_OFF_IN = 22,
	SP_T_OFF_OUT = 23,
	SP_T_OFF_ERR = 24,
	SP_T_PID = 25,
	SP_T_STATE = 26,
	SP_T_STATUS = 27, /* u32 */
	SP_T_SIGNAL = 28, /* u32 */
	SP_T_PATH = 29,
	SP_T_LINK = 30,
	SP_T_MODE = 31, /* u32, as st_mode */
	SP_T_SIZE = 32,
	SP_T_MTIME = 33, /* ns */
	SP_T_UID = 34,  /* u32 */
	SP_T_GID = 35,  /* u32 */
	SP_T_MEM_TOTAL = 36,
	SP_T_MEM_FREE = 37,
	SP_T_LOAD = 38, /* 1-minute, times 100 */
	SP_T_PROCS = 39,
};

/*
 * Streams and windows. A sender keeps at most SP_G_WINDOW bytes beyond the last ACK of a stream.
 * Output of a process lives in a ring of that size per stream inside the agent; a process with an
 * attached session, or whose session was cut by a pause of the same sandbox, waits when the ring is
 * full (nothing is lost across a pause). Begun detached, given up by its client (CLOSE), or in a
 * branch: the oldest bytes are dropped, and an attach from an older offset sees the gap as a jump
 * of the offset in DATA. When a process ends, what its pipes hold is read, then EOF, then EXIT;
 * grandchildren that keep the pipes open do not hold it up. An ended process is forgotten when its
 * EXIT went to a session that then closed, or as the oldest of more than SP_G_PROCS.
 *
 * EXEC with DETACH is answered by OPENED, END: the session is over, the process goes on. A program
 * that could not be run is an EXIT too: status 127 << 8 where there is none, else 126 << 8, and a
 * line on stream 2. The client that attaches last has the process; one before it gets ERROR
 * (SP_CONFLICT). An attach from beyond the end of a stream begins at its end.
 *
 * READ, GET: an EOF comes before END only; ERROR instead of it says that the bytes are not all.
 * WRITE follows a link, keeps the owner (without USER) and, without MODE, the mode of what it
 * replaces; 0644 where there was nothing.
 *
 * Input offsets: the agent ACKs what it has written to the process; after a cut the client attaches
 * and goes on from OFF_IN.
 */

#endif
