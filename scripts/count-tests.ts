/**
 * Prints `N passed, N failed` over the JSON reports of a folder, as the last line of .ci/run. Arguments: the folder, and how
 * many gates failed. A gate that failed without a failing test counts as one failure, and a run without a test fails.
 */
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import process from 'node:process'

interface Report {
  readonly numPassedTests: number
  readonly numFailedTests: number
  readonly numFailedTestSuites: number
}

const [folder = 'reports', failedGatesText = '0'] = process.argv.slice(2)
const failedGates = Number(failedGatesText)
let passed = 0
let failed = 0

for (const file of globSync('*.json', { cwd: folder })) {
  const report = JSON.parse(readFileSync(join(folder, file), 'utf8')) as Partial<Report>
  passed += report.numPassedTests ?? 0
  failed += report.numFailedTests ?? 0
}
failed = Math.max(failed, failedGates)

console.log(`${passed} passed, ${failed} failed`)
if (failed > 0 || passed === 0) process.exitCode = 1
