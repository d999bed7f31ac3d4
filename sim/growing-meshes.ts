import { setImmediate } from 'node:timers/promises'
import { GrowingMesh, type MeshPlan } from './growing-mesh.ts'
import { RecordsFile } from './records-file.ts'

/** How far some meshes are, all in all. */
export interface GrowthReading {
  readonly tasks: number
  readonly events: number
  /** Of the one that is furthest. */
  readonly virtualMs: number
}

export interface GrowthOutcome extends GrowthReading {
  /** Results that came twice, were never asked for, or did not complete, and what was left undone. */
  readonly wrong: readonly string[]
}

/** How far one mesh goes before the next has its turn, in milliseconds of its time. */
const turnMs = 1_000

/** Meshes that grow side by side in this thread, all of them there until the last is over. */
export async function growMeshes(
  plans: readonly MeshPlan[],
  onReading: (reading: GrowthReading) => void,
): Promise<GrowthOutcome> {
  const file = new RecordsFile()
  const meshes = plans.map((plan) => new GrowingMesh(plan, file))
  const reading = (): GrowthReading => ({
    tasks: meshes.reduce((sum, mesh) => sum + mesh.tasks, 0),
    events: meshes.reduce((sum, mesh) => sum + mesh.events, 0),
    virtualMs: Math.max(...meshes.map((mesh) => mesh.virtualMs)),
  })
  for (const mesh of meshes) mesh.begin()
  while (meshes.some((mesh) => !mesh.isOver)) {
    for (const mesh of meshes) {
      if (mesh.isOver) continue
      await mesh.advance(turnMs)
      onReading(reading())
      // Virtual time needs no turn of the event loop, but the runtime does, to let go of what was collected.
      await setImmediate()
    }
  }
  const outcome = { ...reading(), wrong: meshes.flatMap((mesh) => mesh.wrong()) }
  file.close()
  return outcome
}
