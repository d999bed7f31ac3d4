import type { ExitProof, JournalRecord } from '../core/journal.ts'

/** What a keeper is to run. Nothing of the node's own environment reaches the command: `env` and `secretEnv` are all of it. */
export interface KeeperLaunch {
  readonly attemptId: string
  /** Absolute path of the program. */
  readonly program: string
  readonly args: readonly string[]
  readonly cwd: string
  readonly env: Readonly<Record<string, string>>
  /** Credentials. They reach the keeper on its standard input, the command in its environment, and nothing else: no file, no journal. */
  readonly secretEnv: Readonly<Record<string, string>>
  /** Awake milliseconds after which the keeper stops the tree on its own. */
  readonly deadlineMs?: number
  /** How long a request of the command may stay unanswered before the keeper denies it, in milliseconds. */
  readonly answerBoundMs: number
  /** What the node wants to find in the journal's header. The keeper makes nothing of it. */
  readonly memo?: string
}

/**
 * Starts keepers and finds them again. A keeper is a process of its own that owns one attempt's command: its process
 * tree, its pipes and its journal. It outlives the node. Implementations: `src/keeper/client.ts` and the simulator's.
 */
export interface Keepers {
  /**
   * Creates the attempt's folder exclusively, then starts a keeper in it. Resolves once the keeper's header is on disk
   * and its socket answers; the launch of the command itself shows as `launched` or `launch_failed` in the journal.
   *
   * @throws {NfltrError} `already_exists` when the attempt's folder was claimed before; `launch_failed`; `disk_full`
   */
  launch(launch: KeeperLaunch): Promise<Keeper>

  /**
   * Every attempt with a folder on this machine, by its journal and not by its socket, so that ended ones are found too.
   *
   * @param options - `ended`: attempts whose end the caller has on disk; they are named, and their journals are not read
   */
  find(options?: { readonly ended: ReadonlySet<string> }): Promise<readonly FoundAttempt[]>

  /**
   * Takes over the keeper of an attempt, live or ended.
   *
   * @throws {NfltrError} `not_found` when the attempt has no folder
   */
  adopt(attemptId: string): Promise<Keeper>

  /**
   * Proves that nothing of the attempt runs, ending what is left first. Used where the keeper itself is gone.
   * Signals only processes whose pid, start time and boot id, or whose mark in the environment, match.
   */
  sweep(attemptId: string): Promise<ExitProof>

  /** Forgets an attempt: removes its folder. Only for attempts that ended and whose result was settled. */
  remove(attemptId: string): Promise<void>
}

export interface FoundAttempt {
  readonly attemptId: string
  /**
   * `live`: its keeper answered with the token. `ended`: the journal has its exit record. `gone`: neither; no keeper
   * runs and none ever will. `never_launched`: as `gone`, and the command certainly never started.
   */
  readonly state: 'live' | 'ended' | 'gone' | 'never_launched'
  /** Set where the journal's middle is damaged: how many bytes from its beginning are sound. */
  readonly damagedAtOffset?: number
}

export interface Keeper {
  readonly attemptId: string

  /**
   * The journal's records from an offset on, live. `exit` records and everything before them are yielded only after
   * they were synced, so what is built on a record survives a power cut. Ends after `exit`.
   *
   * @throws {NfltrError} `keeper_gone` when the keeper died without an exit record, after all sound records were yielded;
   *   `journal_damaged` with `details.offset` when a record before the end does not check
   */
  records(options: { readonly fromOffset: number; readonly signal: AbortSignal }): AsyncIterable<JournalRecord>

  /**
   * Writes bytes to the command's standard input, once per message id whatever is repeated. Resolves when the intent is
   * synced and the bytes are in the pipe.
   *
   * @throws {NfltrError} `keeper_gone` when no keeper is there or the command's input is closed
   */
  write(message: { readonly messageId: string; readonly bytes: Uint8Array }): Promise<void>

  /** Answers a request of the command; a repeat for the same id does nothing. */
  answer(answer: { readonly requestId: string; readonly bytes: Uint8Array }): Promise<void>

  /** Closes the command's standard input, which lets a well-behaved command end. */
  closeInput(): Promise<void>

  /** Ends the whole process tree: SIGTERM, then SIGKILL after `graceMs`; what ends it shows as `exit` in the journal. */
  stop(options: { readonly graceMs: number }): Promise<void>

  /** Lets go of the keeper without touching it. */
  [Symbol.asyncDispose](): Promise<void>
}
