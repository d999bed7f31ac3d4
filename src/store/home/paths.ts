import { homedir } from 'node:os'
import { isAbsolute, join, resolve } from 'node:path'
import process from 'node:process'
import { NfltrError } from '../../core/errors.ts'
import type { HomePaths } from '../../ports/home.ts'

export interface HomeChoice {
  /** `--home DIR`; before `NFLTR_HOME`, before the XDG folders. */
  readonly home?: string
  readonly env?: Readonly<Record<string, string | undefined>>
}

/**
 * Where this machine's settings, state and sockets live: all below one folder where one was chosen, else in the XDG
 * folders of the user.
 */
export function homePaths(choice: HomeChoice = {}): HomePaths {
  const env = choice.env ?? process.env
  const chosen = choice.home ?? env['NFLTR_HOME']
  if (chosen === '')
    throw new NfltrError('invalid_argument', 'The home was empty.', { hint: 'Set --home or NFLTR_HOME to a folder.' })
  return chosen === undefined ? xdgPaths(env) : singleRoot(resolve(chosen))
}

function singleRoot(root: string): HomePaths {
  return layout({ config: join(root, 'config'), state: root, run: join(root, 'run') })
}

function xdgPaths(env: Readonly<Record<string, string | undefined>>): HomePaths {
  const user = env['HOME'] ?? homedir()
  const state = join(xdgFolder(env['XDG_STATE_HOME']) ?? join(user, '.local/state'), 'nfltr')
  const runtime = xdgFolder(env['XDG_RUNTIME_DIR'])
  return layout({
    config: join(xdgFolder(env['XDG_CONFIG_HOME']) ?? join(user, '.config'), 'nfltr'),
    state,
    run: runtime === undefined ? join(state, 'run') : join(runtime, 'nfltr'),
  })
}

/** The specification has relative paths ignored. @see https://specifications.freedesktop.org/basedir-spec/latest/ */
function xdgFolder(path: string | undefined): string | undefined {
  return path !== undefined && isAbsolute(path) ? path : undefined
}

function layout(roots: { config: string; state: string; run: string }): HomePaths {
  const { config, state, run } = roots
  return {
    configFile: join(config, 'config.json'),
    credentials: join(config, 'credentials'),
    keys: join(config, 'keys'),
    mesh: join(state, 'mesh'),
    issuer: join(state, 'issuer'),
    node: join(state, 'node'),
    run,
    hub: (hubId) => join(state, 'hubs', folderName(hubId)),
  }
}

/**
 * Checks that an id can be the name of a file or folder of ours.
 *
 * @throws {NfltrError} `invalid_argument`
 */
export function folderName(id: string): string {
  if (/^[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}$/.test(id)) return id
  throw new NfltrError('invalid_argument', `${JSON.stringify(id.slice(0, 120))} cannot be an id.`, {
    hint: 'Use at most 100 letters, digits, points, - and _, and no point first.',
  })
}
