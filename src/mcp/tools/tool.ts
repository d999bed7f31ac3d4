import type { ToolName } from '../../ports/hub-api.ts'

/** One tool as the client sees it. Descriptions state facts about what the tool does and returns, never policy. */
export interface Tool {
  readonly name: ToolName
  readonly title: string
  readonly description: string
  readonly annotations: {
    readonly readOnlyHint: boolean
    readonly destructiveHint: boolean
    readonly idempotentHint: boolean
    readonly openWorldHint: boolean
  }
}

export const reads = { readOnlyHint: true, destructiveHint: false, idempotentHint: true, openWorldHint: false } as const
export const changes = {
  readOnlyHint: false,
  destructiveHint: false,
  idempotentHint: true,
  openWorldHint: true,
} as const
