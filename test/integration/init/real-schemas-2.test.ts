import { testSchemas } from '../../support/init-score/schema-tests.ts'

testSchemas(1, 4)
