import { type ChildProcess, spawn } from 'node:child_process'
import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { processesOfFolder } from '../../src/platform/processes-of-folder.ts'

/**
 * One "machine": a home of its own in a temporary folder, and the command line run in it as real processes. Everything it
 * started is ended with it, by process id.
 */
export interface Machine {
  readonly home: string
  readonly project: string
  readonly env: Readonly<Record<string, string>>
  /** What its commands start the runtime with: flags, and the program, which is the source or a build of it. */
  readonly program: readonly string[]
  /** Runs a command to its end. */
  run(args: readonly string[], options?: RunOptions): Promise<Finished>
  /** Runs a command to its end, expects success and JSON, and gives the document. */
  json(args: readonly string[], options?: RunOptions): Promise<Record<string, unknown>>
  /** Starts a command that streams JSON lines. */
  start(args: readonly string[], options?: RunOptions): Running
  [Symbol.asyncDispose](): Promise<void>
}

export interface RunOptions {
  readonly input?: string
  readonly env?: Readonly<Record<string, string>>
  readonly cwd?: string
}

export interface Finished {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
  readonly stdout: string
  readonly stderr: string
}

export interface Running {
  readonly process: ChildProcess
  readonly pid: number
  /** The next line with this event, also one that came already and was not asked for yet. Fails when the process ends first. */
  event(name: string): Promise<Record<string, unknown>>
  readonly finished: Promise<Finished>
  kill(signal?: NodeJS.Signals): void
}

export const repository = join(import.meta.dirname, '../..')

export async function newMachine(
  options: { readonly env?: Readonly<Record<string, string>>; readonly program?: readonly string[] } = {},
): Promise<Machine> {
  const program = options.program ?? [join(repository, 'src/cli/main.ts')]
  const folder = await mkdtemp(join(tmpdir(), 'nfltr-e2e-'))
  const home = join(folder, 'home')
  const project = join(folder, 'project')
  await mkdir(project)
  const env: Record<string, string> = {
    PATH: process.env['PATH'] ?? '',
    HOME: folder,
    LANG: 'C.UTF-8',
    NFLTR_HOME: home,
    NFLTR_LISTEN: '/ip4/127.0.0.1/tcp/0',
    // Nothing of a test leaves loopback.
    NFLTR_LAN: 'false',
    ...options.env,
  }
  const started = new Set<ChildProcess>()
  const launch = (args: readonly string[], run: RunOptions): ChildProcess => {
    const child = spawn(process.execPath, [...program, ...args], {
      cwd: run.cwd ?? project,
      env: { ...env, ...run.env },
      stdio: ['pipe', 'pipe', 'pipe'],
    })
    started.add(child)
    child.once('exit', () => started.delete(child))
    child.stdin?.on('error', () => undefined)
    child.stdin?.end(run.input ?? '')
    return child
  }
  const machine: Machine = {
    home,
    project,
    env,
    program,
    run: (args, run = {}) => finishedOf(launch(args, run)),
    json: async (args, run = {}) => {
      const finished = await finishedOf(launch([...args, '--json'], run))
      if (finished.code !== 0)
        throw new Error(`nfltr ${args.join(' ')} ended with ${finished.code}:\n${finished.stdout}${finished.stderr}`)
      return JSON.parse(finished.stdout) as Record<string, unknown>
    },
    start: (args, run = {}) => running(launch([...args, '--json'], run), args),
    [Symbol.asyncDispose]: async () => {
      await Promise.all([...started].map((child) => ended(child)))
      endTheRest(folder)
      await rm(folder, { recursive: true, force: true })
    },
  }
  return machine
}

/** Hubs and keepers detach from whoever started them; what still names the folder ends here, by its process id. */
function endTheRest(folder: string): void {
  for (const { pid } of processesOfFolder(folder)) {
    try {
      process.kill(pid, 'SIGKILL')
    } catch {
      // It had ended by itself.
    }
  }
}

async function ended(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  await new Promise<void>((resolve) => {
    child.once('exit', () => resolve())
    child.kill('SIGTERM')
    setTimeout(() => child.kill('SIGKILL'), 5_000).unref()
  })
}

function finishedOf(child: ChildProcess): Promise<Finished> {
  let stdout = ''
  let stderr = ''
  child.stdout?.setEncoding('utf8').on('data', (text: string) => {
    stdout += text
  })
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    stderr += text
  })
  return new Promise((resolve, reject) => {
    child.once('error', reject)
    child.once('close', (code, signal) => resolve({ code, signal, stdout, stderr }))
  })
}

function running(child: ChildProcess, args: readonly string[]): Running {
  const unread: Record<string, unknown>[] = []
  const waiting: { name: string; resolve: (line: Record<string, unknown>) => void; reject: (error: Error) => void }[] =
    []
  const finished = finishedOf(child)
  if (child.stdout === null) throw new Error('the command has no standard output')
  createInterface({ input: child.stdout }).on('line', (text) => {
    const line = JSON.parse(text) as Record<string, unknown>
    const index = waiting.findIndex((wait) => wait.name === line['event'])
    const [wait] = index < 0 ? [] : waiting.splice(index, 1)
    if (wait === undefined) unread.push(line)
    else wait.resolve(line)
  })
  void finished.then((end) => {
    const error = new Error(`nfltr ${args.join(' ')} ended with ${end.code ?? end.signal}:\n${end.stdout}${end.stderr}`)
    for (const wait of waiting.splice(0)) wait.reject(error)
  })
  return {
    process: child,
    pid: child.pid ?? -1,
    finished,
    kill: (signal = 'SIGTERM') => void child.kill(signal),
    event: (name) => {
      const index = unread.findIndex((line) => line['event'] === name)
      const [line] = index < 0 ? [] : unread.splice(index, 1)
      if (line !== undefined) return Promise.resolve(line)
      return new Promise((resolve, reject) => waiting.push({ name, resolve, reject }))
    },
  }
}
