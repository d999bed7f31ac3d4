import { type ChildProcess, spawn } from 'node:child_process'
import { mkdir, mkdtemp } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { waitingFor } from '../support/open-waits.ts'
import { removeFolder } from '../support/remove-folder.ts'
import { builtProgram } from './built-program.ts'

/**
 * One "machine": a home of its own in a temporary folder, and the command line run in it as real processes. Everything it
 * started is ended with it, by process id.
 */
export interface Machine {
  readonly home: string
  readonly project: string
  readonly env: Readonly<Record<string, string>>
  /** What its commands start the runtime with: flags, and the program, which is a build unless the test brings another. */
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

/** A line that is not there by then does not come, in milliseconds. Below the time-out of hooks, whose message says nothing. */
const lineBoundMs = 50_000

export const repository = join(import.meta.dirname, '../..')

export async function newMachine(
  options: { readonly env?: Readonly<Record<string, string>>; readonly program?: readonly string[] } = {},
): Promise<Machine> {
  const program = options.program ?? [builtProgram('cli/main')]
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
    run: (args, run = {}) => endOf(follow(launch(args, run), args)),
    json: async (args, run = {}) => {
      const finished = await endOf(follow(launch([...args, '--json'], run), args))
      if (finished.code !== 0)
        throw new Error(`nfltr ${args.join(' ')} ended with ${finished.code}:\n${finished.stdout}${finished.stderr}`)
      return JSON.parse(finished.stdout) as Record<string, unknown>
    },
    start: (args, run = {}) => running(follow(launch([...args, '--json'], run), args)),
    [Symbol.asyncDispose]: async () => {
      for (const child of started) child.kill('SIGKILL')
      await removeFolder(folder)
    },
  }
  return machine
}

/** A process whose words are kept. */
interface Followed {
  readonly child: ChildProcess
  readonly finished: Promise<Finished>
  hasFinished(): boolean
  /** What it is, and what it has said so far. */
  tell(): string
}

function follow(child: ChildProcess, args: readonly string[]): Followed {
  let stdout = ''
  let stderr = ''
  let end: Finished | undefined
  child.stdout?.setEncoding('utf8').on('data', (text: string) => {
    stdout += text
  })
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    stderr += text
  })
  const finished = new Promise<Finished>((resolve, reject) => {
    child.once('error', reject)
    child.once('close', (code, signal) => {
      end = { code, signal, stdout, stderr }
      resolve(end)
    })
  })
  const state = (): string => (end === undefined ? 'runs' : `ended with ${end.code ?? end.signal}`)
  return {
    child,
    finished,
    hasFinished: () => end !== undefined,
    tell: () => `nfltr ${args.join(' ')} (process ${child.pid}) ${state()} and said:\n${tail(stdout)}${tail(stderr)}`,
  }
}

/** Long enough for the last words of any command. */
const tailMax = 4_000

function tail(text: string): string {
  return text.length <= tailMax ? text : `…${text.slice(-tailMax)}`
}

function endOf({ finished, tell }: Followed): Promise<Finished> {
  return waitingFor(tell, finished)
}

interface Wait {
  readonly name: string
  resolve(line: Record<string, unknown>): void
  reject(error: Error): void
}

function running({ child, finished, hasFinished, tell }: Followed): Running {
  const unread: Record<string, unknown>[] = []
  const waiting: Wait[] = []
  if (child.stdout === null) throw new Error('the command has no standard output')
  createInterface({ input: child.stdout }).on('line', (text) => {
    const line = JSON.parse(text) as Record<string, unknown>
    const index = waiting.findIndex((wait) => wait.name === line['event'])
    const [wait] = index < 0 ? [] : waiting.splice(index, 1)
    if (wait === undefined) unread.push(line)
    else wait.resolve(line)
  })
  const endedBefore = (name: string): Error => new Error(`before its line ${JSON.stringify(name)}, ${tell()}`)
  void finished.then(() => {
    for (const wait of waiting.splice(0)) wait.reject(endedBefore(wait.name))
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
      if (hasFinished()) return Promise.reject(endedBefore(name))
      const coming = new Promise<Record<string, unknown>>((resolve, reject) => waiting.push({ name, resolve, reject }))
      return waitingFor(() => `the line ${JSON.stringify(name)}; ${tell()}`, coming, lineBoundMs)
    },
  }
}
