import { globSync, readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { allChecks } from '../src/audit/all-checks.ts'
import { faultKinds } from './fault-mix.ts'
import type { Scenario } from './scenario.ts'

const folder = join(import.meta.dirname, 'regressions')

/** The names of all scenarios and failures that are kept. */
export function scenarioNames(): readonly string[] {
  return globSync('*.json', { cwd: folder })
    .map((file) => basename(file, '.json'))
    .sort()
}

/** @throws {TypeError} there is none of this name, or it names a fault or a check that does not exist */
export function readScenario(name: string): Scenario {
  if (!scenarioNames().includes(name)) {
    throw new TypeError(`there is no scenario ${name}; there are ${scenarioNames().join(', ')}`)
  }
  const scenario = JSON.parse(readFileSync(join(folder, `${name}.json`), 'utf8')) as Scenario
  const known: readonly string[] = [...faultKinds, ...allChecks.map((check) => check.name)]
  const named = [...Object.keys(scenario.faults ?? {}), ...Object.keys(scenario.excused ?? {})]
  const unknown = named.filter((word) => !known.includes(word))
  if (unknown.length > 0) throw new TypeError(`the scenario ${name} names what does not exist: ${unknown.join(', ')}`)
  return scenario
}
