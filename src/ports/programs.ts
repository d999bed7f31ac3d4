/**
 * What a driver needs of the machine while it prepares a turn: nothing of this runs while a turn does. Implementation:
 * `platform/programs.ts`.
 */
export interface Programs {
  /** The absolute path of a program: the given path where it can be run, else the first of that name on the search path. */
  find(nameOrPath: string, searchPath: string): Promise<string | undefined>

  /**
   * Runs a program to its end, without standard input, in exactly this environment. It is killed at its bound.
   *
   * @throws the system's error where it cannot be started
   */
  run(program: string, options: ProgramRun): Promise<ProgramEnd>

  /**
   * Reads a plain file of text.
   *
   * @returns `undefined` where there is no plain file of that name, a symbolic link included: what a workspace holds must
   *   not make us read something outside of it
   * @throws {NfltrError} `invalid_argument` where it is longer than `maxBytes` or not valid UTF-8
   */
  readText(path: string, options: { readonly maxBytes: number }): Promise<string | undefined>

  /** Replaces a file as a whole; only its owner may read it, and run it where `isProgram`. Makes its folder, closed to others. */
  writeText(path: string, text: string, options: { readonly isProgram: boolean }): Promise<void>

  /** Makes a folder that is ours alone. @throws {NfltrError} `insecure_permissions` where it is there and is not */
  makeFolder(path: string): Promise<void>

  /** Removes a file; nothing happens where there is none. */
  removeFile(path: string): Promise<void>
}

export interface ProgramRun {
  readonly args: readonly string[]
  readonly env: Readonly<Record<string, string>>
  readonly timeoutMs: number
  readonly signal: AbortSignal
}

export interface ProgramEnd {
  /** Absent where a signal ended it. */
  readonly code?: number
  readonly stdout: string
  readonly stderr: string
}
