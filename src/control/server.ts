import { timingSafeEqual } from 'node:crypto'
import { chmod } from 'node:fs/promises'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { NfltrError } from '../core/errors.ts'
import type { HubApi, HubStatusDocument, NodeApi } from '../ports/hub-api.ts'
import { errorDocument } from './error-document.ts'
import { Exchange } from './exchange.ts'
import { http } from './node-http.ts'
import { backupRequest, callRequest, holdRequest, keyRequest, leaveRequest, paths } from './schema/requests.ts'

/**
 * The control API: HTTP over a Unix socket in a folder that is ours alone, with a token on top, because an agent of the
 * same user can reach the socket but has not been given the token (rule 4).
 */
export interface ControlServer {
  close(): Promise<void>
}

export interface Route {
  readonly method: 'GET' | 'POST'
  /** Parts that begin with a colon are named. */
  readonly path: string
  readonly answer: (exchange: Exchange) => Promise<void>
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
  readonly routes: readonly Route[]
}): Promise<ControlServer> {
  const server = http.createServer((request, response) => {
    response.on('error', () => undefined)
    void serve(request, response, options)
  })
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
        const cut = setTimeout(() => server.closeAllConnections(), lastAnswerMs)
        server.close(() => {
          clearTimeout(cut)
          resolve()
        })
        server.closeIdleConnections()
      }),
  }
}

async function serve(
  request: IncomingMessage,
  response: ServerResponse,
  { token, routes }: { readonly token: string; readonly routes: readonly Route[] },
): Promise<void> {
  // Whoever has no token reaches this too: what is no address is one that nothing serves.
  const url = URL.parse(request.url ?? '/', 'http://control')
  const [pathname, query] = [url?.pathname ?? '', url?.searchParams ?? new URLSearchParams()]
  const found = routes.flatMap((route) => {
    const named = request.method === route.method ? partsOf(route.path, pathname) : undefined
    return named === undefined ? [] : [{ route, named }]
  })[0]
  const exchange = new Exchange({ request, response }, { query, named: found?.named ?? {} })
  try {
    if (!isToken(request.headers.authorization, token)) {
      exchange.json(errorDocument(new NfltrError('not_a_member', 'The control token was missing or wrong.')), 401)
    } else if (found === undefined) {
      exchange.json(errorDocument(new NfltrError('unsupported', `This process does not serve ${pathname}.`)), 404)
    } else await found.route.answer(exchange)
  } catch (thrown) {
    exchange.json(errorDocument(thrown), 400)
  }
}

/** The named parts of a path that fits a route. */
function partsOf(route: string, path: string): Readonly<Record<string, string>> | undefined {
  const wanted = route.split('/')
  const found = path.split('/')
  if (wanted.length !== found.length) return undefined
  const named: Record<string, string> = {}
  for (const [index, part] of wanted.entries()) {
    const value = found[index] ?? ''
    const given = part.startsWith(':') ? decoded(value) : value
    if (given === undefined) return undefined
    if (part.startsWith(':')) named[part.slice(1)] = given
    else if (part !== given) return undefined
  }
  return named
}

function decoded(part: string): string | undefined {
  try {
    return decodeURIComponent(part)
  } catch {
    return undefined
  }
}

function isToken(header: string | undefined, token: string): boolean {
  const given = Buffer.from(header ?? '')
  const wanted = Buffer.from(`Bearer ${token}`)
  return given.length === wanted.length && timingSafeEqual(given, wanted)
}

/** `more` goes into the status: what the process around the hub knows. */
export function hubRoutes(hub: HubApi, more: () => Partial<HubStatusDocument> = () => ({})): readonly Route[] {
  return [
    { method: 'POST', path: paths.hold, answer: (exchange) => answerHold(hub, exchange) },
    { method: 'POST', path: paths.call, answer: (exchange) => answerCall(hub, exchange) },
    post(paths.confirm, async (exchange) => await hub.confirm((await exchange.body(keyRequest)).call_key)),
    post(paths.withdraw, async (exchange) => await hub.withdraw((await exchange.body(keyRequest)).call_key)),
    post(paths.doubt, async (exchange) => await hub.doubt((await exchange.body(keyRequest)).call_key)),
    post(paths.stop, () => hub.stop()),
    {
      method: 'POST',
      path: paths.backup,
      answer: async (exchange) => exchange.json(await hub.backup(await exchange.body(backupRequest))),
    },
    get(paths.status, async () => ({ ...(await hub.status()), ...more() })),
    get(paths.account, (exchange) => hub.account(exchange.text('from'))),
    get(paths.nodeAccount, (exchange) => hub.nodeAccount(exchange.part('id'), exchange.text('after'))),
    get(paths.agent, (exchange) => hub.showAgent(exchange.part('id'))),
    get(paths.receipt, (exchange) => {
      const turn = exchange.wholeNumber('turn', 0)
      return hub.receipt(exchange.part('id'), turn === 0 ? {} : { turn })
    }),
    get(paths.logs, async (exchange) => {
      const page = await hub.logs(exchange.part('id'), {
        fromSeq: exchange.wholeNumber('from_seq', 0),
        limit: Math.min(exchange.wholeNumber('limit', 500), 5000),
      })
      return { events: page.events, ...(page.nextSeq === undefined ? {} : { next_seq: page.nextSeq }) }
    }),
  ]
}

export function nodeRoutes(node: NodeApi): readonly Route[] {
  return [
    get(paths.status, () => node.status()),
    get(paths.account, (exchange) => node.account(exchange.text('hub_id') ?? '', exchange.text('after'))),
    {
      method: 'POST',
      path: paths.leave,
      answer: async (exchange) => {
        const { is_forced: isForced } = await exchange.body(leaveRequest)
        exchange.json(await node.leave({ isForced }))
      },
    },
  ]
}

function get(path: string, read: (exchange: Exchange) => Promise<unknown>): Route {
  return { method: 'GET', path, answer: async (exchange) => exchange.json(await read(exchange)) }
}

function post(path: string, work: (exchange: Exchange) => Promise<void>): Route {
  return {
    method: 'POST',
    path,
    answer: async (exchange) => {
      await work(exchange)
      exchange.json({})
    },
  }
}

async function answerHold(hub: HubApi, exchange: Exchange): Promise<void> {
  const body = await exchange.body(holdRequest)
  const hold = await hub.hold({ pid: body.pid, host: body.host, since: body.since, sessionKey: body.session_key })
  await exchange.lines(async (send, gone) => {
    await send({ event: 'held' })
    await new Promise<void>((resolve) => {
      if (gone.aborted) resolve()
      else gone.addEventListener('abort', () => resolve(), { once: true })
    })
    await hold.release()
  })
}

async function answerCall(hub: HubApi, exchange: Exchange): Promise<void> {
  const body = await exchange.body(callRequest)
  await exchange.lines(async (send, gone) => {
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
}
