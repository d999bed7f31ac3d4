import { mkdtemp, rm, stat } from 'node:fs/promises'
import { get } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { hubClient } from '../../src/control/client.ts'
import { paths } from '../../src/control/schema/requests.ts'
import { type ControlServer, hubRoutes, serveControl } from '../../src/control/server.ts'
import { NfltrError } from '../../src/core/errors.ts'
import { type ScriptedHub, scriptedHub } from './scripted-hub.ts'

describe('the control API of a hub', () => {
  let folder: string
  let hub: ScriptedHub
  let server: ControlServer
  const token = 'a-token-of-the-test'
  const endpoint = (): { socketPath: string; token: string } => ({ socketPath: join(folder, 's'), token })

  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'nfltr-control-'))
    hub = scriptedHub()
    server = await serveControl({ socketPath: join(folder, 's'), token, routes: hubRoutes(hub) })
  })
  afterEach(async () => {
    await server.close()
    await rm(folder, { recursive: true })
  })

  test('is a socket that only its user can open', async () => {
    const { mode } = await stat(endpoint().socketPath)

    expect((mode & 0o777).toString(8)).toBe('600')
  })

  test('carries a call and its reply unchanged, also 5 MiB of awkward characters', async () => {
    const brief = '"\\\u2028✓é\n'.repeat(500_000)

    const reply = await hubClient(endpoint()).call({
      tool: 'spawn_agent',
      args: { brief },
      callKey: 'key-00001',
      sessionKey: 'session-1',
    })

    expect(JSON.parse(reply.body)).toEqual({ echoed: { brief } })
  })

  test('carries a refusal with its code, hint and details', async () => {
    hub.answer = async () => {
      throw new NfltrError('invalid_argument', 'The brief was empty.', {
        hint: 'Give one.',
        details: { argument: 'brief' },
      })
    }

    const call = hubClient(endpoint()).call({
      tool: 'spawn_agent',
      args: {},
      callKey: 'key-00001',
      sessionKey: 'session-1',
    })

    await expect(call).rejects.toMatchObject({
      code: 'invalid_argument',
      hint: 'Give one.',
      details: { argument: 'brief' },
    })
  })

  test('passes progress on while a call waits', async () => {
    hub.answer = async (call) => {
      call.onProgress?.('one')
      call.onProgress?.('two')
      return { body: '{}' }
    }
    const notes: string[] = []

    await hubClient(endpoint()).call({
      tool: 'wait_for_agents',
      args: {},
      callKey: 'key-00001',
      sessionKey: 'session-1',
      onProgress: (note) => notes.push(note),
    })

    expect(notes).toEqual(['one', 'two'])
  })

  test('tells the hub when the client cancels', async () => {
    const cancel = new AbortController()
    const seen = new Promise<void>((resolve) => {
      hub.answer = (call) =>
        new Promise(() => {
          call.signal?.addEventListener('abort', () => resolve(), { once: true })
          cancel.abort()
        })
    })

    const call = hubClient(endpoint()).call({
      tool: 'wait_for_agents',
      args: {},
      callKey: 'key-00001',
      sessionKey: 'session-1',
      signal: cancel.signal,
    })

    await expect(call).rejects.toMatchObject({ code: 'link_down' })
    await seen
  })

  test('holds for as long as the client is there', async () => {
    const session = { pid: 7, host: 'here', since: '2026-01-01T00:00:00.000Z', sessionKey: 'session-1' }
    const hold = await hubClient(endpoint()).hold(session)
    expect(hub.holds).toEqual(['held session-1'])

    await hold.release()

    await expect.poll(() => hub.holds).toEqual(['held session-1', 'released session-1'])
  })

  test('lets a client know that the hub is gone', async () => {
    const session = { pid: 7, host: 'here', since: '2026-01-01T00:00:00.000Z', sessionKey: 'session-1' }
    const hold = await hubClient(endpoint()).hold(session)

    await server.close()

    await hold.lost
    await expect(hubClient(endpoint()).status()).rejects.toMatchObject({ code: 'not_running' })
  })

  test('refuses a wrong token and an unknown path', async () => {
    const stranger = hubClient({ ...endpoint(), token: 'another' })

    await expect(stranger.status()).rejects.toMatchObject({ code: 'not_a_member' })
    expect(hub.calls).toEqual([])
  })

  test.each([
    ['half an escape', paths.agent.replace(':id', '%')],
    ['no host', '//'],
  ])('outlives a stranger who asks for what is no address: %s', async (_what, path) => {
    const status = await new Promise<number | undefined>((resolve, reject) => {
      get({ socketPath: endpoint().socketPath, path }, (response) => {
        response.resume()
        resolve(response.statusCode)
      }).on('error', reject)
    })

    expect(status).toBe(401)
    await expect(hubClient(endpoint()).status()).resolves.toMatchObject({})
  })

  test('names the field of a malformed request', async () => {
    const call = hubClient(endpoint()).call({
      tool: 'spawn_agent',
      args: {},
      callKey: 'short',
      sessionKey: 'session-1',
    })

    await expect(call).rejects.toMatchObject({ code: 'invalid_argument', details: { argument: 'call_key' } })
  })
})
