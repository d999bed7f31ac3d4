import { type ChildProcess, spawn } from 'node:child_process'
import process from 'node:process'
import type { Readable, Writable } from 'node:stream'
import { controlGroupName, createControlGroup, launchInside } from '../platform/control-group.ts'
import { addKnown, type ProcessTree, processTree } from '../platform/exit-proof.ts'
import { attemptMark, nameOf, type ProcessName } from '../platform/process-table.ts'
import type { KeeperSpec } from './launch-spec.ts'

/** The running command as its keeper holds it. */
export interface Command {
  readonly name: ProcessName
  readonly tree: ProcessTree
  readonly stdin: Writable
  readonly stdout: Readable
  readonly stderr: Readable
  /** Settles when the command itself has ended; children of it may still run. */
  readonly ended: Promise<{ readonly code: number | null; readonly signal: NodeJS.Signals | null }>
}

/** Makes the control group the command will live in, where this machine lets us. Its name goes into the journal first. */
export function prepareGroup(attemptId: string): string | undefined {
  return createControlGroup(`${controlGroupName(attemptId)}-${process.pid}`)
}

/**
 * Starts the command: in a session of its own, so that no terminal's end and no signal to our group reaches it; with
 * exactly the environment of the launch and the attempt's mark; inside the group from its first instruction on.
 *
 * @throws the system's error where the program or its folder cannot be used
 */
export async function startCommand(
  spec: KeeperSpec,
  options: { readonly group: string | undefined; readonly umask: number },
): Promise<Command> {
  const start = (): ChildProcess => spawnWithUmask(spec, options.umask)
  const { launched: child, isProof } =
    options.group === undefined ? { launched: start(), isProof: false } : launchInside(options.group, start)
  // Its number is its own until the loop runs next and waits for it, however quickly it ends.
  const name = child.pid === undefined ? undefined : nameOf(child.pid)
  const ended: Command['ended'] = new Promise((resolve) => {
    child.once('exit', (code, signal) => resolve({ code, signal }))
  })
  await new Promise<void>((resolve, reject) => {
    child.once('spawn', resolve)
    child.once('error', reject)
  })
  const { stdin, stdout, stderr } = child
  if (name === undefined || stdin === null || stdout === null || stderr === null)
    throw new Error('the command has no pipes')
  // Later errors of the handle are of signals sent in vain; the exit event tells what matters.
  child.on('error', () => undefined)
  const tree = processTree(spec.attemptId, { group: isProof ? options.group : undefined, trustsSessions: true })
  addKnown(tree, name)
  return { name, tree, stdin, stdout, stderr, ended }
}

/** The keeper's own files are closed to everyone; the command's are its user's business, under the user's own mask. */
function spawnWithUmask(spec: KeeperSpec, umask: number): ChildProcess {
  const own = process.umask(umask)
  try {
    return spawn(spec.program, [...spec.args], {
      cwd: spec.cwd,
      env: { ...spec.env, ...spec.secretEnv, [attemptMark]: spec.attemptId },
      detached: true,
      stdio: ['pipe', 'pipe', 'pipe'],
    })
  } finally {
    process.umask(own)
  }
}
