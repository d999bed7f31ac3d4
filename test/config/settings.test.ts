import { describe, expect, test } from 'vitest'
import {
  changeSetting,
  knownKey,
  resolveSettings,
  settingKeys,
  settingsOf,
  variableOf,
} from '../../src/config/settings.ts'

const refused = (code: string, part: string) =>
  expect.objectContaining({ code, message: expect.stringContaining(part) as string }) as Error

describe('settings', () => {
  test('come from flags before variables before the file, and say from where', () => {
    const given = {
      flags: { name: 'by-flag' },
      env: { NFLTR_NAME: 'by-env', NFLTR_NODE_MAX_AGENTS: '3', NFLTR_LISTEN: '/ip4/0.0.0.0/tcp/1, /ip6/::/tcp/1' },
      fileText: '{"schema":1,"name":"by-file","node.max_agents":2,"node.description":"d"}',
    }

    expect(resolveSettings(given)).toEqual([
      { key: 'name', value: 'by-flag', source: 'flag', from: 'command line' },
      { key: 'listen', value: ['/ip4/0.0.0.0/tcp/1', '/ip6/::/tcp/1'], source: 'environment', from: 'NFLTR_LISTEN' },
      { key: 'node.max_agents', value: 3, source: 'environment', from: 'NFLTR_NODE_MAX_AGENTS' },
      { key: 'node.description', value: 'd', source: 'file', from: 'config.json' },
    ])
    expect(settingsOf(resolveSettings(given))).toMatchObject({ name: 'by-flag', 'node.max_agents': 3 })
  })

  test('that nobody set are absent', () => {
    expect(resolveSettings({})).toEqual([])
    expect(resolveSettings({ env: { NFLTR_NAME: '' }, fileText: ' \n' })).toEqual([])
  })

  test.each([
    ['{', 'not JSON'],
    ['[]', 'not an object'],
    ['{"name":"Not A Name"}', 'name of config.json'],
    ['{"node.max_agents":0}', 'node.max_agents of config.json'],
    ['{"listen":["tcp:1"]}', 'listen of config.json'],
    ['{"allow_all_tools":true}', 'unknown setting "allow_all_tools"'],
  ])('in a file such as %s are refused', (fileText, part) => {
    expect(() => resolveSettings({ fileText })).toThrow(refused('invalid_argument', part))
  })

  test('in a variable that does not read are refused by its name', () => {
    expect(() => resolveSettings({ env: { NFLTR_NODE_MAX_AGENTS: 'many' } })).toThrow(
      refused('invalid_argument', 'NFLTR_NODE_MAX_AGENTS'),
    )
  })

  test('never allow an agent anything: that is said at each start', () => {
    expect(settingKeys.filter((key) => /allow|offer|tools|monitor|pass_env/.test(key))).toEqual([])
  })

  test('change one at a time, and can be taken out', () => {
    const first = changeSetting(undefined, { key: 'node.max_agents', value: '4' })
    const second = changeSetting(first, { key: 'listen', value: '/ip4/0.0.0.0/tcp/9' })
    const third = changeSetting(second, { key: 'node.max_agents', value: undefined })

    expect(JSON.parse(second)).toEqual({ schema: 1, listen: ['/ip4/0.0.0.0/tcp/9'], 'node.max_agents': 4 })
    expect(JSON.parse(third)).toEqual({ schema: 1, listen: ['/ip4/0.0.0.0/tcp/9'] })
    expect(() => changeSetting(third, { key: 'node.max_agents', value: '65' })).toThrow(
      refused('invalid_argument', 'node.max_agents'),
    )
  })

  test('that are not known are named with the nearest one', () => {
    expect(() => knownKey('node.max_agent', 'The command line')).toThrow(
      expect.objectContaining({ hint: expect.stringContaining('Did you mean node.max_agents?') as string }) as Error,
    )
    expect(variableOf('node.max_agents')).toBe('NFLTR_NODE_MAX_AGENTS')
  })
})
