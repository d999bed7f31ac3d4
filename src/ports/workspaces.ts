/**
 * Folders that agents work in. Implementations: `platform/agent-folders` on real folders, and the simulator's.
 *
 * An agent has a workspace (an empty folder of its own, or one below an offer of the machine's owner), a private folder for
 * its program's configuration and history, and a temporary folder per attempt. The first two live as long as the agent.
 */
export interface Workspaces {
  /**
   * Makes the folders of one attempt, or finds them again; may be repeated for the same attempt.
   *
   * A `dir` is resolved by its real path and has to lie below the real path of its offer, now and not only when the agent
   * began: `..`, links that lead out and offers that were taken back are refused (rule 34).
   *
   * @throws {NfltrError} `launch_failed` with `details.reason`: `dir_not_offered`, `sandbox_unavailable` (an offer for reading
   *   only, which nothing on this machine enforces), `workspace` (the folder is missing or is no folder), `disk_full`
   */
  prepare(request: WorkspaceRequest): Promise<Workspace>

  /** Removes the attempt's temporary folder. Nothing happens where there is none. */
  discardTemporary(attempt: WorkspaceRequest): Promise<void>

  /** Bytes that may still be written where agents work. */
  freeBytes(): Promise<number>
}

export interface WorkspaceRequest {
  readonly agentId: string
  readonly attemptId: string
  /** The attempt that began the agent's session: its own id for a first turn. A continuation works in what it left. */
  readonly originAttemptId: string
  /** An offer's name, or `NAME/path` below one. Absent: a folder of the agent's own. */
  readonly dir?: string
  /** Real path of the workspace that earlier turns of the agent used: a continuation gets this one or is refused. */
  readonly knownPath?: string
}

export interface Workspace {
  /** Real path. */
  readonly path: string
  readonly privateDir: string
  readonly tmpDir: string
}
