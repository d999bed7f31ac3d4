import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'

/**
 * Networks of their own for a test: namespaces joined by virtual cables. Names hold the process id, so that what a killed run left
 * can be told and removed; nothing outside of them is touched.
 */
export interface Namespace {
  readonly name: string
  /** Of its end of the cable. */
  readonly device: string
  /** Runs `ip` inside. @throws {Error} with what it said */
  ip(...args: readonly string[]): void
  /** The command that runs a program inside. */
  inside(command: readonly string[]): readonly [string, ...string[]]
  /** Starts a program inside, in a process group of its own. */
  spawn(
    command: readonly string[],
    options: { readonly env: Readonly<Record<string, string>>; readonly cwd: string },
  ): ChildProcess
}

const prefix = 'nfltr-lan-'

/** Why namespaces cannot be made here; undefined where they can. */
export function whyNoNamespaces(): string | undefined {
  if (process.platform !== 'linux') return 'network namespaces are Linux’s'
  if (process.getuid?.() !== 0) return 'network namespaces need root'
  const name = `${prefix}${process.pid}-probe`
  const made = spawnSync('ip', ['netns', 'add', name], { encoding: 'utf8' })
  if (made.error !== undefined) return 'the program `ip` is missing'
  if (made.status !== 0) return `no namespace could be made: ${made.stderr.trim()}`
  spawnSync('ip', ['netns', 'del', name])
  return undefined
}

export interface Network<N extends string> {
  readonly machines: Readonly<Record<N, Namespace>>
  remove(): void
}

/**
 * A namespace for each name, all on one switch, which has a namespace of its own: the first is at `.1` of a network, the second at
 * `.2`, and so on.
 */
export function onASwitch<const N extends string>(network: string, names: readonly N[]): Network<N> {
  removeLeftovers()
  const tag = `${prefix}${process.pid}-${Math.floor(Math.random() * 1e6)}`
  const hub = namespace(`${tag}-switch`)
  const entries = names.map((name) => [name, namespace(`${tag}-${name}`)] as const)
  const remove = (): void => {
    for (const { name } of [hub, ...entries.map(([, each]) => each)]) spawnSync('ip', ['netns', 'del', name])
  }
  try {
    run(['netns', 'add', hub.name])
    hub.ip('link', 'add', 'switch', 'type', 'bridge')
    hub.ip('link', 'set', 'switch', 'up')
    for (const [index, [, each]] of entries.entries()) {
      const port = `port${index + 1}`
      run(['netns', 'add', each.name])
      hub.ip('link', 'add', port, 'type', 'veth', 'peer', 'name', each.device, 'netns', each.name)
      hub.ip('link', 'set', port, 'master', 'switch', 'up')
      each.ip('link', 'set', 'lo', 'up')
      each.ip('addr', 'add', `${network}.${index + 1}/24`, 'dev', each.device)
      each.ip('link', 'set', each.device, 'up')
    }
  } catch (error) {
    remove()
    throw error
  }
  return { machines: Object.fromEntries(entries) as Record<N, Namespace>, remove }
}

function namespace(name: string): Namespace {
  const inside: Namespace['inside'] = (command) => ['ip', 'netns', 'exec', name, ...command]
  return {
    name,
    device: 'net0',
    ip: (...args) => run(['-n', name, ...args]),
    inside,
    spawn: (command, { env, cwd }) => {
      const [program, ...args] = inside(command)
      return spawn(program, args, { env, cwd, stdio: ['ignore', 'pipe', 'pipe'], detached: true })
    },
  }
}

function run(args: readonly string[]): void {
  const done = spawnSync('ip', args, { encoding: 'utf8' })
  if (done.status !== 0) throw new Error(`ip ${args.join(' ')}: ${done.stderr.trim()}`)
}

/** Namespaces of test runs that no process is left of. */
function removeLeftovers(): void {
  const listed = spawnSync('ip', ['netns', 'list'], { encoding: 'utf8' }).stdout ?? ''
  for (const [name = '', pid] of listed.matchAll(new RegExp(`^${prefix}(\\d+)-\\S+`, 'gm'))) {
    if (!isAlive(Number(pid))) spawnSync('ip', ['netns', 'del', name])
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}

/** Everything a program said, once it has ended. */
export async function finished(
  child: ChildProcess,
): Promise<{ readonly code: number | null; readonly stdout: string; readonly stderr: string }> {
  let [stdout, stderr] = ['', '']
  child.stdout?.setEncoding('utf8').on('data', (text: string) => {
    stdout += text
  })
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    stderr += text
  })
  await once(child, 'close')
  return { code: child.exitCode, stdout, stderr }
}
