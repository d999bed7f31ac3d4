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
    exportKey: async (options) => (await commands()).exportKey(options),
    importKey: async (options) => (await commands()).importKey(options),
    replaceKey: async (options) => (await commands()).replaceKey(options),
    promote: async (options) => (await commands()).promote(options),
    renew: async (options) => (await commands()).renew(options),
    revoke: async (options) => (await commands()).revoke(options),
    join: async (options, tell) => (await commands()).join(options, tell),
    pending: async (options) => (await commands()).pending(options),
    approve: async (options) => (await commands()).approve(options),
    deny: async (options) => (await commands()).deny(options),
    serve: async (options, ready) => (await commands()).serve(options, ready),
  }
}
