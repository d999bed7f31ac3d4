import { auditWorld } from './compose/audit-world.ts'
import { configWorld } from './compose/config-world.ts'
import { demoWorld } from './compose/demo-world.ts'
import { agentWorld, hubWorld } from './compose/hub-world.ts'
import { meshWorld } from './compose/mesh-world.ts'
import { nodeWorld } from './compose/node-world.ts'
import { storeWorld } from './compose/store-world.ts'
import { packageVersion } from './compose/version.ts'
import type { CliIo } from './io.ts'
import type { World } from './world.ts'

/** What every command starts from. */
export interface Context {
  readonly io: CliIo
  readonly env: Readonly<Record<string, string | undefined>>
  readonly version: string
}

/**
 * The composition root: where each interface meets its implementation. The worlds load what they need when a command runs,
 * so that `nfltr --version` does not start a mesh.
 */
export function compose(given: { readonly io: CliIo; readonly env: Context['env'] }): World {
  const context: Context = { ...given, version: packageVersion() }
  return {
    version: context.version,
    mesh: meshWorld(context),
    node: nodeWorld(context),
    hub: hubWorld(context),
    stores: storeWorld(context),
    agents: agentWorld(context),
    config: configWorld(context),
    demo: demoWorld(context),
    audit: auditWorld(context),
    doctor: {
      io: context.io,
      examine: async (options) => (await import('./compose/doctor.ts')).examine(context, options),
    },
    uninstall: {
      io: context.io,
      uninstall: async (options) => (await import('./compose/uninstalling.ts')).uninstall(context, options),
    },
    mcp: async (options) => (await import('./compose/mcp-process.ts')).serveAdapter(context, options),
  }
}
