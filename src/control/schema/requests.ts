import * as z from 'zod'
import { toolNames } from '../../ports/hub-api.ts'

/** Bodies of the control API. One table for server and client; the paths stand beside the shapes. */

export const holdRequest = z.strictObject({
  pid: z.number().int().positive(),
  host: z.string().max(255),
  since: z.string().max(40),
  session_key: z.string().min(8).max(200),
})

export const callRequest = z.strictObject({
  tool: z.enum(toolNames),
  args: z.record(z.string(), z.unknown()),
  call_key: z.string().min(8).max(400),
  session_key: z.string().min(8).max(200),
})

export const keyRequest = z.strictObject({ call_key: z.string().min(8).max(400) })

export const leaveRequest = z.strictObject({ is_forced: z.boolean() })

export const backupRequest = z.strictObject({ file: z.string().min(1).max(4_096).startsWith('/') })

export const paths = {
  hold: '/v1/hold',
  call: '/v1/call',
  confirm: '/v1/confirm',
  withdraw: '/v1/withdraw',
  doubt: '/v1/doubt',
  status: '/v1/status',
  stop: '/v1/stop',
  backup: '/v1/backup',
  leave: '/v1/leave',
  account: '/v1/account',
  nodeAccount: '/v1/nodes/:id/account',
  agent: '/v1/agents/:id',
  logs: '/v1/agents/:id/logs',
  receipt: '/v1/agents/:id/receipt',
} as const

/** The largest body a client may send, in bytes: a brief of 1 MiB, every character escaped. */
export const requestMaxBytes = 8 * 1024 * 1024
