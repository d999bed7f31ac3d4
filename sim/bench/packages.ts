import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import process from 'node:process'
import { NotHere } from './figure.ts'

/**
 * The path of a program, which is installed where that can be done.
 *
 * @throws {NotHere} with the reason
 */
export function programOf(name: string, packageName: string, places: readonly string[]): string {
  const find = (): string | undefined => places.find((place) => existsSync(place))
  const found = find()
  if (found !== undefined) return found
  if (process.getuid?.() !== 0) throw new NotHere(`${name} is not installed, and only root can install it`)
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' }
  // A service that starts by itself would be in the way of nothing, but it is not asked for either.
  spawnSync('apt-get', ['install', '-y', '--no-install-recommends', packageName], { env, stdio: 'ignore' })
  const installed = find()
  if (installed === undefined) throw new NotHere(`${name} is not installed, and apt-get could not install it`)
  return installed
}
