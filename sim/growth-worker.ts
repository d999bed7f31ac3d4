/** A thread in which the meshes grow that it is given. `growth.ts` starts it. */
import { parentPort, workerData } from 'node:worker_threads'
import type { MeshPlan } from './growing-mesh.ts'
import { growMeshes } from './growing-meshes.ts'
import type { WorkerWord } from './growth.ts'

const port = parentPort
if (port === null) throw new Error('growth-worker.ts is a thread of sim/grow.ts')

const tell = (word: WorkerWord): void => port.postMessage(word)
const outcome = await growMeshes(workerData as readonly MeshPlan[], (reading) => tell({ type: 'reading', reading }))
tell({ type: 'outcome', outcome })
