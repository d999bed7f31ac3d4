import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type Machine, newMachine, type Running, repository } from './machine.ts'

/** An owner's machine, which is the hub's, and a node, each with a home of its own, joined by an invite. */
export interface MeshOfTwo extends AsyncDisposable {
  readonly hub: Machine
  readonly node: Machine
  readonly nodeName: string
  /** The running `nfltr node join`, replaced by `restartNode`. */
  running(): Running
  /** Starts the node again with the same flags, after whatever ended it, and waits until it is ready. */
  restartNode(): Promise<Running>
  /** What the agents will do, by the exact text of their first message; read anew by each turn. */
  play(turns: Readonly<Record<string, readonly object[]>>): Promise<void>
}

export async function meshOfTwo(options: { readonly nodeFlags?: readonly string[] } = {}): Promise<MeshOfTwo> {
  const hub = await newMachine()
  const scenario = join(hub.project, '..', 'scenario.json')
  const node = await newMachine({ env: { ANTHROPIC_API_KEY: 'sk-ant-test-0000' } })
  const program = join(node.project, '..', 'claude')
  const agent = join(repository, 'src/cli/demo/scripted-agent.ts')
  await writeFile(program, `#!/bin/sh\nexec '${process.execPath}' '${agent}' --scenario '${scenario}' "$@"\n`, {
    mode: 0o755,
  })
  await hub.json(['mesh', 'create', '--name', 'laptop'])
  const inviting = hub.start(['mesh', 'invite', '--name', 'vm1'])
  const invite = await inviting.event('invite')
  const flags = ['node', 'join', '--claude', program, ...(options.nodeFlags ?? ['--max-agents', '4'])]
  let current = node.start([...flags, '--invite-file', '-'], { input: String(invite['invite']) })
  await current.event('joined')
  await current.event('ready')
  await inviting.event('joined')
  await inviting.finished
  return {
    hub,
    node,
    nodeName: 'vm1',
    running: () => current,
    restartNode: async () => {
      current = node.start(flags)
      await current.event('ready')
      return current
    },
    play: (turns) => writeFile(scenario, JSON.stringify({ turns })),
    [Symbol.asyncDispose]: async () => {
      await hub[Symbol.asyncDispose]()
      await node[Symbol.asyncDispose]()
    },
  }
}
