import { setTimeout } from 'node:timers/promises'
import type { HubApi } from '../../ports/hub-api.ts'
import { openHome } from '../../store/home/home.ts'
import type { AgentWorld } from '../commands/agent-call.ts'
import type { HubWorld } from '../commands/hub.ts'
import type { Context } from '../compose.ts'
import { connectHub, findRunningHub } from './hub-starter.ts'
import { projectOf } from './project.ts'

interface HubChoice {
  readonly hubId?: string
  readonly home?: string
}

export function hubWorld(context: Context): HubWorld {
  return {
    io: context.io,
    find: (options) => find(context, options),
    serve: async (options, ready) => {
      const { serveHub } = await import('./hub-process.ts')
      await serveHub(context, options, ready)
    },
    untilGone,
  }
}

/** How long a hub that has said goodbye may take to end, and how often it is looked for, in milliseconds. */
const goneWithinMs = 3_000
const lookEveryMs = 20

async function untilGone(pid: number): Promise<boolean> {
  for (let waitedMs = 0; waitedMs < goneWithinMs; waitedMs += lookEveryMs) {
    try {
      process.kill(pid, 0)
    } catch {
      return true
    }
    await setTimeout(lookEveryMs)
  }
  return false
}

export function agentWorld(context: Context): AgentWorld {
  const { env } = context
  return {
    io: context.io,
    connect: async (options: HubChoice) =>
      connectHub({
        home: openHome({ ...options, env }),
        homeFlag: options.home,
        project: projectOf({ ...options, env }),
        env,
      }),
    openReceipt: async (receipt, expected) => {
      const { checkReceipt } = await import('../../identity/receipts.ts')
      return await checkReceipt(receipt, expected)
    },
  }
}

async function find(context: Context, options: HubChoice): Promise<HubApi> {
  const { env } = context
  const home = openHome({ ...options, env })
  const { hubId } = projectOf({ ...options, env })
  const running = await findRunningHub(home, hubId)
  if (running !== undefined) return running
  const { NfltrError } = await import('../../core/errors.ts')
  throw new NfltrError('not_running', `The hub ${hubId} was not running.`, {
    hint: 'It is started by the first tool call or agent command, or by: nfltr hub serve',
  })
}
