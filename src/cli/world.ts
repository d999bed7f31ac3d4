import type { AgentWorld } from './commands/agent-call.ts'
import type { AuditWorld } from './commands/audit.ts'
import type { ConfigWorld } from './commands/config.ts'
import type { DemoWorld } from './commands/demo.ts'
import type { DoctorWorld } from './commands/doctor.ts'
import type { HubWorld } from './commands/hub.ts'
import type { McpOptions } from './commands/mcp.ts'
import type { MeshWorld } from './commands/mesh.ts'
import type { NodeWorld } from './commands/node.ts'
import type { StoreWorld } from './commands/store.ts'
import type { UninstallWorld } from './commands/uninstall.ts'

/** Everything the commands do, behind interfaces; `compose.ts` is the one real implementation. */
export interface World {
  readonly version: string
  readonly mesh: MeshWorld
  readonly node: NodeWorld
  readonly hub: HubWorld
  readonly stores: StoreWorld
  readonly agents: AgentWorld
  readonly config: ConfigWorld
  readonly audit: AuditWorld
  readonly demo: DemoWorld
  readonly doctor: DoctorWorld
  readonly uninstall: UninstallWorld
  readonly mcp: (options: McpOptions) => Promise<void>
}
