import { NfltrError } from '../../core/errors.ts'
import { limits } from '../../core/limits.ts'
import type { NodeJoinOptions } from '../commands/node.ts'

/**
 * Whether what the owner says of a node fits the card that its hubs get: a card that is over a bound of the wire would reach none.
 *
 * @throws {NfltrError} `invalid_argument`, naming the flag and its limit
 */
export function checkDeclared(options: NodeJoinOptions, description: string): void {
  const { label = [], capability = [], offer = [], passEnv = [] } = options
  fits('--describe', description, limits.descriptionMaxBytes)
  atMost('--label', new Set(label.map(([name]) => name)).size, limits.labelsMax)
  for (const [name, value] of label) {
    fits('--label: a name', name, limits.nameMaxBytes)
    fits('--label: a value', value, limits.labelMaxBytes)
  }
  atMost('--capability', capability.length, limits.capabilitiesMax)
  for (const name of capability) {
    if (name === '') throw refused('--capability', '--capability was given without a name.')
    fits('--capability', name, limits.labelMaxBytes)
  }
  atMost('--offer', offer.length, limits.offersMax)
  once('--label', label)
  once('--offer', offer)
  for (const name of passEnv) {
    if (/^[A-Za-z_][A-Za-z0-9_]*$/.test(name)) continue
    throw refused('--pass-env', `--pass-env: ${JSON.stringify(name)} is no name of a variable.`)
  }
}

/** Of two values of one name it would be chance which one counts. */
function once(argument: string, given: readonly (readonly [string, string])[]): void {
  const names = given.map(([name]) => name)
  const twice = names.find((name, index) => names.indexOf(name) < index)
  if (twice !== undefined) throw refused(argument, `${argument}: ${twice} was given more than once.`)
}

function atMost(argument: string, count: number, most: number): void {
  if (count > most) throw refused(argument, `${argument} was given ${count} times; the limit is ${most}.`)
}

function fits(what: string, text: string, maxBytes: number): void {
  const bytes = new TextEncoder().encode(text).length
  if (bytes <= maxBytes) return
  throw refused(what.split(':')[0] ?? what, `${what} of ${bytes} bytes was refused; the limit is ${maxBytes} bytes.`)
}

function refused(argument: string, message: string): NfltrError {
  return new NfltrError('invalid_argument', message, { details: { argument } })
}
