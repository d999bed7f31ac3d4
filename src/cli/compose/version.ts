import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { packageFolder } from '../../platform/program-files.ts'

/** The version of this package, from the one place that says it. */
export function packageVersion(): string {
  const text = readFileSync(join(packageFolder(), 'package.json'), 'utf8')
  return (JSON.parse(text) as { version: string }).version
}
