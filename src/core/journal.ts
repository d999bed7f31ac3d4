/**
 * The journal of one attempt: what its keeper saw and did, in order. It is the only truth about a turn that outlives
 * every process of ours, so a node rebuilds a running turn from it alone.
 *
 * Bytes on disk are the keeper's business (`src/keeper/journal.ts`); these are the records as everyone else sees them.
 */
export type JournalRecord = JournalPosition & JournalBody

export interface JournalPosition {
  /** Offset in bytes of the first byte behind this record: the place to read on from. */
  readonly nextOffset: number
  /** Awake monotonic time of the keeper's machine when the record was written, milliseconds since the keeper started. */
  readonly atMs: number
}

export type JournalBody =
  | {
      readonly type: 'header'
      /** Random, 32 hex digits; proves over the socket that this keeper owns this journal (rule 19). */
      readonly token: string
      readonly attemptId: string
      readonly bootId: string
      readonly protocol: number
      readonly command: readonly string[]
      readonly envNames: readonly string[]
      readonly deadlineMs?: number
      /** Wall clock at the start, milliseconds since 1970: a label, never a decision. */
      readonly wallMs: number
      readonly keeperPid: number
      readonly keeperStart: string
      /** Where the keeper listens; whoever connects checks the folder's owner and mode first. */
      readonly socketPath: string
      /** What the node left in it for itself; absent from keepers of earlier versions. */
      readonly memo?: string
    }
  /** Synced before the command is started. `cgroup`: the control group that holds everything of it, where there is one. */
  | { readonly type: 'launching'; readonly cgroup?: string }
  | { readonly type: 'launched'; readonly pid: number; readonly start: string }
  | { readonly type: 'launch_failed'; readonly message: string }
  /** One whole line of the command's standard output, without its line feed. */
  | { readonly type: 'stdout'; readonly line: Uint8Array }
  /** A line above the keeper's bound: its first bytes, and how long the whole of it was. The rest was not kept. */
  | { readonly type: 'stdout_cut'; readonly head: Uint8Array; readonly lineBytes: number }
  /** A chunk of standard error, as it came. */
  | { readonly type: 'stderr'; readonly chunk: Uint8Array }
  /** Synced before the bytes go into the command's standard input. The same id is never written twice. */
  | { readonly type: 'stdin_intent'; readonly messageId: string; readonly bytes: Uint8Array }
  /** An answer to a request of the command; `by` says whether the node gave it or the keeper had to. */
  | {
      readonly type: 'control_answer'
      readonly requestId: string
      readonly by: 'node' | 'keeper'
      readonly bytes: Uint8Array
    }
  | { readonly type: 'input_closed' }
  /** A stop of the process tree was asked for: by the node, or by the keeper at the turn's deadline. */
  | { readonly type: 'stopping'; readonly by: 'node' | 'deadline' }
  | {
      readonly type: 'exit'
      readonly code?: number
      readonly signal?: string
      readonly proof: ExitProof
    }

/** How strongly it is known that no process of the attempt is left, strongest first (rule 21). */
export type ExitProof = 'cgroup_empty' | 'pidns_gone' | 'scan_clean'
