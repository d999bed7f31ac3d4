import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expectCleanHistories } from './audited.ts'
import { builtProgram } from './built-program.ts'
import { type Machine, newMachine, type Running } from './machine.ts'

/** A running node, with a home of its own. */
export interface RunningNode extends AsyncDisposable {
  readonly machine: Machine
  readonly name: string
  /** The running `nfltr node join`, replaced by `restart`. */
  running(): Running
  /** Starts the node again with the same flags and more, after whatever ended it, and waits until it is ready. */
  restart(options?: Restart): Promise<Running>
}

export interface Restart {
  /** Standard input of the command: an invite. */
  readonly input?: string
  readonly flags?: readonly string[]
  readonly env?: Readonly<Record<string, string>>
}

/** An owner's machine, which is the hub's, and a node, each with a home of its own, joined by an invite. */
export interface MeshOfTwo extends AsyncDisposable {
  readonly hub: Machine
  readonly node: Machine
  readonly nodeName: string
  running(): Running
  restartNode(options?: Restart): Promise<Running>
  /** Another machine that becomes a node, and plays the same scenario. */
  addNode(name: string): Promise<RunningNode>
  /** What the agents will do, by the exact text of their first message; read anew by each turn. */
  play(turns: Readonly<Record<string, readonly object[]>>): Promise<void>
}

/** When it is disposed of, the history of each hub on the owner's machine has to be clean. */
export async function meshOfTwo(options: { readonly nodeFlags?: readonly string[] } = {}): Promise<MeshOfTwo> {
  const hub = await newMachine()
  const scenario = join(hub.project, '..', 'scenario.json')
  const flags = options.nodeFlags ?? ['--max-agents', '4']
  await hub.json(['mesh', 'create', '--name', 'laptop'])
  const first = await joinedNode(hub, { name: 'vm1', scenario, flags })
  const more: RunningNode[] = []
  return {
    hub,
    node: first.machine,
    nodeName: first.name,
    running: first.running,
    restartNode: first.restart,
    addNode: async (name) => {
      const node = await joinedNode(hub, { name, scenario, flags })
      more.push(node)
      return node
    },
    play: (turns) => writeFile(scenario, JSON.stringify({ turns })),
    [Symbol.asyncDispose]: async () => {
      try {
        await expectCleanHistories(hub)
      } finally {
        await hub[Symbol.asyncDispose]()
        for (const node of [first, ...more]) await node[Symbol.asyncDispose]()
      }
    },
  }
}

/** Makes a machine a node of the owner's mesh by an invite. Its agents play the scenario. */
export async function joinedNode(
  owner: Machine,
  options: {
    readonly name: string
    /** The member whose name it takes. */
    readonly replaces?: string
    readonly scenario: string
    readonly flags: readonly string[]
  },
): Promise<RunningNode> {
  const machine = await newMachine({ env: { ANTHROPIC_API_KEY: 'sk-ant-test-0000' } })
  const program = join(machine.project, '..', 'claude')
  const agent = builtProgram('cli/demo/scripted-agent')
  const script = `#!/bin/sh\nexec '${process.execPath}' '${agent}' --scenario '${options.scenario}' "$@"\n`
  await writeFile(program, script, { mode: 0o755 })
  const named = options.replaces === undefined ? ['--name', options.name] : ['--replace', options.replaces]
  const inviting = owner.start(['mesh', 'invite', ...named])
  const invite = await inviting.event('invite')
  const flags = ['node', 'join', '--claude', program, ...options.flags]
  let current = machine.start([...flags, '--invite-file', '-'], { input: String(invite['invite']) })
  await current.event('joined')
  await current.event('ready')
  await inviting.event('joined')
  await inviting.finished
  return {
    machine,
    name: options.name,
    running: () => current,
    restart: async ({ flags: more = [], ...run } = {}) => {
      current = machine.start([...flags, ...more], run)
      await current.event('ready')
      return current
    },
    [Symbol.asyncDispose]: () => machine[Symbol.asyncDispose](),
  }
}
