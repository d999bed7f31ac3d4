import { nodeClient } from '../../control/client.ts'
import { openHome } from '../../store/home/home.ts'
import type { NodeWorld } from '../commands/node.ts'
import type { Context } from '../compose.ts'
import { findControl } from './control-files.ts'

export function nodeWorld(context: Context): NodeWorld {
  return {
    io: context.io,
    join: async (options, tell) => {
      const { serveNode } = await import('./node-process.ts')
      await serveNode(context, options, tell)
    },
    leave: async (options) => (await import('./leaving.ts')).leave(context, options),
    find: async (options) =>
      nodeClient(await findControl(openHome({ ...options, env: context.env }).paths, { kind: 'node' })),
  }
}
