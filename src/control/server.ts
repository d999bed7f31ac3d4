import { timingSafeEqual } from 'node:crypto'
import { chmod } from 'node:fs/promises'
import { createAdaptorServer } from '@hono/node-server'
import { type Context, Hono } from 'hono'
import { bodyLimit } from 'hono/body-limit'
import { stream } from 'hono/streaming'
import type * as z from 'zod'
import { NfltrError } from '../core/errors.ts'
import type { HubApi, NodeApi } from '../ports/hub-api.ts'
import { errorDocument } from './error-document.ts'
import { callRequest, holdRequest, keyRequest, leaveRequest, paths, requestMaxBytes } from './schema/requests.ts'

/**
 * The control API: HTTP over a Unix socket in a folder that is ours alone, with a token on top, because an agent of the
 * same user can reach the socket but has not been given the token (rule 4).
 */
export interface ControlServer {
  close(): Promise<void>
}

/** How long answers under way may take once the server closes, in milliseconds. */
const lastAnswerMs = 250

/**
 * Serves an API on a Unix socket of mode 0600. The folder around it has to be 0700 already: a socket is bound with open
 * permissions, and only then narrowed.
 *
 * @throws {NfltrError} `path_too_long`, `store_held` when another process serves this socket
 */
export async function serveControl(options: {
  readonly socketPath: string
  readonly token: string
  readonly routes: Hono
}): Promise<ControlServer> {
  const app = new Hono()
  app.onError((thrown, context) => context.json(errorDocument(thrown), 400))
  app.notFound((context) =>
    context.json(errorDocument(new NfltrError('unsupported', `This process does not serve ${context.req.path}.`)), 404),
  )
  app.use(async (context, next) => {
    if (!isToken(context.req.header('authorization'), options.token)) {
      return context.json(errorDocument(new NfltrError('not_a_member', 'The control token was missing or wrong.')), 401)
    }
    return await next()
  })
  app.use(bodyLimit({ maxSize: requestMaxBytes }))
  app.route('/', options.routes)
  const server = createAdaptorServer({ fetch: app.fetch, overrideGlobalObjects: false })
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(options.socketPath, () => {
      server.off('error', reject)
      resolve()
    })
  })
  await chmod(options.socketPath, 0o600)
  return {
    close: () =>
      new Promise((resolve) => {
        // An answer that is being written (to whoever asked for the end) gets a moment; holds and waits end with us.
        const cut = setTimeout(() => {
          if ('closeAllConnections' in server) server.closeAllConnections()
        }, lastAnswerMs)
        server.close(() => {
          clearTimeout(cut)
          resolve()
        })
        if ('closeIdleConnections' in server) server.closeIdleConnections()
      }),
  }
}

function isToken(header: string | undefined, token: string): boolean {
  const given = Buffer.from(header ?? '')
  const wanted = Buffer.from(`Bearer ${token}`)
  return given.length === wanted.length && timingSafeEqual(given, wanted)
}

export function hubRoutes(hub: HubApi): Hono {
  const routes = new Hono()
  routes.post(paths.hold, async (context) => {
    const body = await parse(context, holdRequest)
    const hold = await hub.hold({ pid: body.pid, host: body.host, since: body.since, sessionKey: body.session_key })
    return lines(context, async (send, gone) => {
      await send({ event: 'held' })
      await new Promise<void>((resolve) => {
        if (gone.aborted) resolve()
        else gone.addEventListener('abort', () => resolve(), { once: true })
      })
      await hold.release()
    })
  })
  routes.post(paths.call, async (context) => {
    const body = await parse(context, callRequest)
    return lines(context, async (send, gone) => {
      try {
        const reply = await hub.call({
          tool: body.tool,
          args: body.args,
          callKey: body.call_key,
          sessionKey: body.session_key,
          signal: gone,
          onProgress: (note) => void send({ event: 'progress', note }),
        })
        await send({ event: 'reply', body: reply.body })
      } catch (thrown) {
        await send({ event: 'error', ...errorDocument(thrown) })
      }
    })
  })
  routes.post(paths.confirm, async (context) => {
    await hub.confirm((await parse(context, keyRequest)).call_key)
    return context.json({})
  })
  routes.post(paths.withdraw, async (context) => {
    await hub.withdraw((await parse(context, keyRequest)).call_key)
    return context.json({})
  })
  routes.post(paths.doubt, async (context) => {
    await hub.doubt((await parse(context, keyRequest)).call_key)
    return context.json({})
  })
  routes.get(paths.status, async (context) => context.json(await hub.status()))
  routes.post(paths.stop, async (context) => {
    await hub.stop()
    return context.json({})
  })
  routes.get(paths.agent, async (context) => context.json(await hub.showAgent(context.req.param('id'))))
  routes.get(paths.receipt, async (context) => {
    const turn = wholeNumber(context.req.query('turn'), 0)
    return context.json(await hub.receipt(context.req.param('id'), turn === 0 ? {} : { turn }))
  })
  routes.get(paths.logs, async (context) => {
    const page = await hub.logs(context.req.param('id'), {
      fromSeq: wholeNumber(context.req.query('from_seq'), 0),
      limit: Math.min(wholeNumber(context.req.query('limit'), 500), 5000),
    })
    return context.json({ events: page.events, ...(page.nextSeq === undefined ? {} : { next_seq: page.nextSeq }) })
  })
  return routes
}

export function nodeRoutes(node: NodeApi): Hono {
  const routes = new Hono()
  routes.get(paths.status, async (context) => context.json(await node.status()))
  routes.post(paths.leave, async (context) => {
    const { is_forced: isForced } = await parse(context, leaveRequest)
    return context.json(await node.leave({ isForced }))
  })
  return routes
}

type Send = (line: Readonly<Record<string, unknown>>) => Promise<void>

/** An answer of JSON lines whose end, or whose client's end, is known to the worker. */
function lines(context: Context, work: (send: Send, gone: AbortSignal) => Promise<void>): Response {
  const gone = new AbortController()
  return stream(context, async (output) => {
    output.onAbort(() => gone.abort())
    await work(async (line) => {
      await output.write(`${JSON.stringify(line)}\n`)
    }, gone.signal)
  })
}

async function parse<Shape extends z.ZodType>(context: Context, shape: Shape): Promise<z.infer<Shape>> {
  const body: unknown = await context.req.json().catch(() => undefined)
  const parsed = shape.safeParse(body)
  if (parsed.success) return parsed.data
  const issue = parsed.error.issues[0]
  const argument = issue?.path.join('.') ?? ''
  throw new NfltrError(
    'invalid_argument',
    `The request's ${argument || 'body'} was refused: ${issue?.message ?? 'it is not valid'}.`,
    {
      details: { argument },
    },
  )
}

function wholeNumber(text: string | undefined, fallback: number): number {
  const value = Number(text ?? fallback)
  return Number.isSafeInteger(value) && value >= 0 ? value : fallback
}
