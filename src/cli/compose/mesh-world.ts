import type { MeshWorld } from '../commands/mesh.ts'
import type { Context } from '../compose.ts'

/** The mesh commands, which load the mesh only when they run. */
export function meshWorld(context: Context): MeshWorld {
  const commands = async () => (await import('./mesh-commands.ts')).meshCommands(context)
  return {
    io: context.io,
    create: async (options) => (await commands()).create(options),
    show: async (options) => (await commands()).show(options),
    members: async (options) => (await commands()).members(options),
    invite: async (options, tell) => (await commands()).invite(options, tell),
    join: async (options) => (await commands()).join(options),
    serve: async (options, ready) => (await commands()).serve(options, ready),
  }
}
